import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { join } from "node:path";

/** Makes a repository with one commit, and another beside it; gives the path of the first. */
export function makeRepositories(root: string): string {
  const bare = join(root, "team", "project.git");
  mkdirSync(bare, { recursive: true });
  const git = (...argv: readonly string[]): void => {
    execFileSync("git", argv, { cwd: root, stdio: "pipe", env: IDENTITY });
  };
  git("init", "-q", "--bare", "-b", "main", bare);
  git("init", "-q", "-b", "main", "seed");
  writeFileSync(join(root, "seed", "file"), "first\n");
  git("-C", "seed", "add", ".");
  git("-C", "seed", "commit", "-q", "-m", "first");
  git("-C", "seed", "push", "-q", bare, "main");
  git("clone", "-q", "--bare", bare, join(root, "team", "other.git"));
  return bare;
}

export const IDENTITY: Readonly<Record<string, string | undefined>> = {
  PATH: process.env.PATH,
  ...{ GIT_AUTHOR_NAME: "a", GIT_AUTHOR_EMAIL: "a@example.test" },
  ...{ GIT_COMMITTER_NAME: "a", GIT_COMMITTER_EMAIL: "a@example.test" },
  ...{ GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" },
};

/** `git http-backend` as CGI (RFC 3875), for who has the token. */
export function serveGit(root: string, wanted: string, token: string): RequestListener {
  return (request, response) => {
    if (request.headers.authorization === wanted) backend(root, token, request, response);
    else {
      // It says what it was sent, as some do.
      const said = `what is ${request.headers.authorization}? try ${token}`;
      response.writeHead(401, { "www-authenticate": 'Basic realm="git"', "x-said": said });
      response.end(said);
    }
  };
}

function backend(
  root: string,
  token: string,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const [path = "", query = ""] = (request.url ?? "").split("?");
  const child = spawn("git", ["http-backend"], {
    env: {
      ...IDENTITY,
      ...{ GIT_PROJECT_ROOT: root, GIT_HTTP_EXPORT_ALL: "1", REMOTE_USER: "robot" },
      ...{ PATH_INFO: path, QUERY_STRING: query, REQUEST_METHOD: request.method },
      CONTENT_TYPE: request.headers["content-type"],
      CONTENT_LENGTH: request.headers["content-length"],
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"],
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  request.pipe(child.stdin);
  child.stdin.on("error", () => undefined);
  let head = Buffer.alloc(0);
  const take = (chunk: Buffer): void => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end === -1) return;
    child.stdout.removeListener("data", take);
    let status = 200;
    for (const line of head.toString("latin1", 0, end).split("\r\n")) {
      const [name = "", value = ""] = line.split(": ");
      if (name === "Status") status = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    // So that it can be told whether the token comes back.
    response.setHeader("x-said", `${request.headers.authorization} ${token}`);
    response.writeHead(status);
    response.write(head.subarray(end + 4));
    child.stdout.pipe(response);
  };
  child.stdout.on("data", take);
}

/** One package, as the registry's own protocol has it: what there is of it, and the archive. */
export function npmRegistry(
  root: string,
  name: string,
  base: () => string,
): (url: string) => Buffer | string | null {
  const manifest = { name, version: "1.2.3", main: "index.js" };
  mkdirSync(join(root, "package"));
  writeFileSync(join(root, "package", "package.json"), JSON.stringify(manifest));
  writeFileSync(join(root, "package", "index.js"), 'module.exports = "from the registry";\n');
  const archive = join(root, "tool.tgz");
  execFileSync("tar", ["-czf", archive, "-C", root, "package"]);
  const bytes = readFileSync(archive);
  const integrity = `sha512-${createHash("sha512").update(bytes).digest("base64")}`;
  return (url) => {
    if (url.endsWith("/-/tool-1.2.3.tgz")) return bytes;
    if (url !== `/${name}`) return null;
    const tarball = `${base()}/${name}/-/tool-1.2.3.tgz`;
    const version = { ...manifest, dist: { tarball, integrity } };
    return JSON.stringify({
      name,
      "dist-tags": { latest: "1.2.3" },
      versions: { "1.2.3": version },
    });
  };
}
