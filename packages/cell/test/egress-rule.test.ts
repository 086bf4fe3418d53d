import fc from "fast-check";
import { expect, test } from "vitest";
import { judgeAddress, readRange } from "../src/egress/address.ts";
import { readRuleHost, readTarget } from "../src/egress/host.ts";
import { isPush, readPath } from "../src/egress/path.ts";
import { type NetworkRule, readRules, ruleFlaw } from "../src/egress/rule.ts";
import { allow } from "./network.ts";

test.each([
  ["Example.COM", "example.com"],
  ["example.com.", "example.com"],
  ["xn--bcher-kva.example", "xn--bcher-kva.example"],
  ["8.8.8.8", "8.8.8.8"],
  ["[2001:DB8:0::1]", "2001:db8::1"],
  ["[::ffff:127.0.0.1]", "::ffff:7f00:1"],
])("the host %s is read as %s", (text, name) => {
  expect(readTarget(text, 443)?.host.name).toBe(name);
});

test.each([
  "",
  ".",
  "example..com",
  "example.com..",
  ".example.com",
  "-a.example",
  "bücher.example",
  "ｅxample.com",
  "a b.example",
  "example.com%00.evil.example",
  "user@example.com",
  "example.com/evil",
  "example.com:443:443",
  "example.com:0",
  "example.com:65536",
  "example.com:+443",
  "127.1",
  "0177.0.0.1",
  "0x7f.0.0.1",
  "0x7f000001",
  "2130706433",
  "127.0.0.1.",
  "127.0.0.01",
  "256.1.1.1",
  "1.2.3.4.5",
  "a.0x1",
  "[::1",
  "::1",
  "[::1%25eth0]",
  "[fe80::1%eth0]",
  "[::ffff:0x7f.0.0.1]",
])("%s is no host: it could be read in two ways", (text) => {
  expect(readTarget(text, 443)).toBeNull();
});

test("whatever is read as a host, a browser's parser reads as the same", () => {
  const part = fc.constantFrom(
    "0x7f",
    "1",
    "127",
    "0",
    "a",
    "A",
    "xn--a",
    ".",
    "-",
    "_",
    "[",
    "]",
    ":",
  );
  fc.assert(
    fc.property(
      fc.array(part, { maxLength: 12 }).map((parts) => parts.join("")),
      (text) => {
        const read = readTarget(text, 80);
        if (read === null || !URL.canParse(`http://${text}/`)) return;
        const { hostname } = new URL(`http://${text}/`);
        expect(hostname.replace(/^\[|\]$|\.$/g, "")).toBe(read.host.name);
      },
    ),
    { numRuns: 5000 },
  );
});

test("a rule may name a host in Unicode, and means its ASCII form", () => {
  expect(readRuleHost("Bücher.example")?.name).toBe("xn--bcher-kva.example");
  expect(readRuleHost("::1")?.name).toBe("::1");
});

test.each([
  "0.0.0.0",
  "10.0.0.1",
  "100.64.0.1",
  "127.0.0.1",
  "127.255.255.254",
  "169.254.1.1",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.1",
  "192.168.1.1",
  "198.18.0.1",
  "203.0.113.1",
  "224.0.0.1",
  "240.0.0.1",
  "255.255.255.255",
  "169.254.169.254",
  "100.100.100.200",
  "168.63.129.16",
  "::",
  "::1",
  "::ffff:8.8.8.8",
  "::ffff:127.0.0.1",
  "64:ff9b::7f00:1",
  "100::1",
  "2001::1",
  "2001:db8::1",
  "2002:7f00:1::",
  "fc00::1",
  "fd00:ec2::254",
  "fe80::1",
  "fe80::1%lo",
  "ff02::1",
  "not an address",
  "",
  "0177.0.0.1",
])("the address %s is refused where no rule names it", (address) => {
  expect(judgeAddress(address, []).kind).toBe("refused");
});

test.each(["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "2a00::1"])(
  "the address %s is public",
  (address) => {
    expect(judgeAddress(address, [])).toMatchObject({ kind: "allowed", address });
  },
);

test("a named range lets through what lies in it, of its own family", () => {
  const named = ranges("10.1.0.0/16", "fd12:3456::/32", "127.0.0.1");
  expect(judgeAddress("10.1.2.3", named).kind).toBe("allowed");
  expect(judgeAddress("10.2.0.1", named).kind).toBe("refused");
  expect(judgeAddress("fd12:3456::1", named).kind).toBe("allowed");
  expect(judgeAddress("::ffff:10.1.2.3", named).kind).toBe("refused");
  expect(judgeAddress("127.0.0.2", named).kind).toBe("refused");
});

test("a metadata service is named by its own address alone", () => {
  expect(judgeAddress("169.254.169.254", ranges("169.254.0.0/16")).kind).toBe("refused");
  expect(judgeAddress("169.254.169.254", ranges("169.254.169.254")).kind).toBe("allowed");
});

test.each([
  "0.0.0.0/0",
  "::/0",
  "10.0.0.0/7",
  "10.0.0.0/33",
  "10.0.0.0/",
  "10/8",
  "a/8",
  "1.2.3.4/8/8",
])("%s names no range", (text) => {
  expect(readRange(text)).toBeNull();
});

test.each([
  "/a/../b",
  "/a/./b",
  "/..",
  "/a/%2e%2e/b",
  "/a/%2E./b",
  "/a/..%2fb",
  "/a%5c..%5cb",
  "/a\\..\\b",
  "/a/%252e%252e/b",
  "/a/..;x/b",
  "/a/%00",
  "/a/%0d%0ax",
  "/a b",
  "/a\tb",
  "/%zz",
  "/%25252525",
  "a",
  "",
  "/a#b",
])("the path %s leads elsewhere than it seems to", (path) => {
  expect(readPath(path)).toBeNull();
});

test("an escaped slash, as of a scoped package, is judged in both its forms", () => {
  expect(readPath("/@scope%2fname?write=true")).toMatchObject({
    forms: ["/@scope%2fname", "/@scope/name"],
    query: "write=true",
  });
});

test.each([
  ["/r.git/git-receive-pack", true],
  ["/r.git/git-receive-pac%6b", true],
  ["/r.git/info/refs?service=git-receive-pack", true],
  ["/r.git/info/refs?service=git-upload-pack&service=git-receive-pack", true],
  ["/r.git/info/refs?service=git-receive%2Dpack", true],
  ["/r.git/info/refs?service=git-upload-pack", false],
  ["/r.git/git-upload-pack", false],
])("that %s is a push is %s", (written, expected) => {
  const path = readPath(written);
  expect(path !== null && isPush(path)).toBe(expected);
});

const SECRET: NetworkRule["secret"] = {
  from: { kind: "variable", name: "TOKEN" },
  as: { kind: "bearer" },
};

test.each<[string, Partial<NetworkRule>, string]>([
  ["a wildcard alone", { host: "*" }, "is no host"],
  ["a wildcard within", { host: "a.*.example" }, "is no host"],
  ["a URL", { host: "https://example.com" }, "is no host"],
  ["an address that is not plain", { host: "0x7f000001" }, "is no host"],
  ["a wildcard of addresses", { host: "*.0.0.1" }, "is no host"],
  ["no port", { ports: [0] }, "is no port"],
  ["a path with dots", { paths: ["/a/../b"] }, "no dots"],
  ["a path without its slash", { paths: ["a"] }, "begins with a slash"],
  ["a path with a query", { paths: ["/a?b"] }, "no query"],
  ["a method in lower case", { methods: ["get"] }, "is no method"],
  ["a method that opens tunnels", { methods: ["CONNECT"] }, "is no method"],
  ["a method that answers with the request", { methods: ["TRACE"] }, "is no method"],
  ["every address", { addresses: ["0.0.0.0/0"] }, "is no address"],
  ["a secret for all below", { host: "*.example.com", secret: SECRET }, "goes to one host"],
])("a rule with %s is refused", (_, rest, words) => {
  expect(ruleFlaw({ ...allow("example.com", 443), ...rest })).toContain(words);
});

test("a rule's flaw is a fault that names the rule", () => {
  const read = readRules({ allow: [allow("*", 443)], certificates: [] });
  expect(read).toMatchObject({ ok: false, fault: { code: "config", subject: "network.allow: *" } });
});

function ranges(...texts: readonly string[]): NonNullable<ReturnType<typeof readRange>>[] {
  return texts.map((text) => {
    const range = readRange(text);
    if (range === null) throw new Error(text);
    return range;
  });
}
