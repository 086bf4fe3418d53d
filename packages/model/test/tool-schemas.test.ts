import { toJsonSchema } from "@valibot/to-json-schema";
import { expect, test } from "vitest";
import { TOOLS } from "../src/tools.ts";

test("the JSON Schemas that models are given are those of the tools (write them with -u)", async () => {
  const lines = TOOLS.map((tool) => {
    const { $schema: _, ...schema } = toJsonSchema(tool.schema, { typeMode: "input" });
    const text = JSON.stringify(schema, plain).replaceAll("\\", "\\\\").replaceAll("'", "\\'");
    return `  ${tool.name}:\n    '${text}',\n`;
  });
  const file = [
    "// biome-ignore-all format: made by a test.\n",
    'import type { ToolName } from "./tool.ts";\n\n',
    "/** Made from the tools' schemas; a test says when it is not current and, with `-u`, writes it. */\n",
    "export const SCHEMAS: Readonly<Record<ToolName, string>> = {\n",
    ...lines,
    "};\n",
  ];
  await expect(file.join("")).toMatchFileSnapshot("../src/tool/schemas.ts");
});

/** Leaves out what some providers refuse: a list that is empty, and a keyword that says nothing here. */
function plain(key: string, value: unknown): unknown {
  const idle = key === "propertyNames" || (key === "required" && Array.isArray(value) && !value[0]);
  return idle ? undefined : value;
}
