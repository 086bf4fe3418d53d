import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { expect, test } from "vitest";

test("what takes only ids and faults carries no codec", async () => {
  const small = await bundled(
    'export { fault, ok, never, turnId, familyOf } from "@dev/protocol";',
  );
  expect(small).toContain("function turnId");
  expect(small).not.toMatch(/TextDecoder|DataView|byTag/);
});

test("what takes the codec takes nothing of a host but its text encoder and decoder", async () => {
  const whole = await bundled('export * from "@dev/protocol";');
  expect(whole).toMatch(/TextDecoder/);
  expect(whole).not.toMatch(/\bimport\b|\brequire\b|\bprocess\b|\bBuffer\b|Date\.now|Math\.random/);
});

async function bundled(source: string): Promise<string> {
  const entry = fileURLToPath(new URL("entry.ts", import.meta.url));
  const bundle = await rolldown({
    input: entry,
    resolve: { conditionNames: ["source"] },
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id === entry ? id : null),
        load: (id) => (id === entry ? source : null),
      },
    ],
  });
  const { output } = await bundle.generate({ format: "esm" });
  await bundle.close();
  return output.map((chunk) => (chunk.type === "chunk" ? chunk.code : "")).join("");
}
