import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { createSecureContext, type SecureContext } from "node:tls";
import { AsnConvert, OctetString } from "@peculiar/asn1-schema";
import {
  AlgorithmIdentifier,
  AttributeTypeAndValue,
  AttributeValue,
  AuthorityKeyIdentifier,
  BasicConstraints,
  Certificate,
  ExtendedKeyUsage,
  Extension,
  Extensions,
  GeneralName,
  id_ce_authorityKeyIdentifier,
  id_ce_basicConstraints,
  id_ce_extKeyUsage,
  id_ce_keyUsage,
  id_ce_subjectAltName,
  id_ce_subjectKeyIdentifier,
  id_kp_serverAuth,
  KeyUsage,
  KeyUsageFlags,
  Name,
  RelativeDistinguishedName,
  SubjectAlternativeName,
  SubjectKeyIdentifier,
  SubjectPublicKeyInfo,
  TBSCertificate,
  Validity,
} from "@peculiar/asn1-x509";
import type { Host } from "./host.ts";

/**
 * An authority that lives as long as one process: its certificate is trusted in a cell, and its key
 * never leaves memory. With it the proxy is the host that the cell asks for, where a rule says so.
 */
export type Authority = {
  /** Its certificate, as PEM. */
  readonly certificate: string;
  /** What the proxy shows as this host; made once, and again before it ends. */
  contextOf(host: Host, nowMs: number): SecureContext;
};

const DAY_MS = 24 * 60 * 60 * 1000;
/** A cell's clock may be behind ours, or ahead. */
const SKEW_MS = DAY_MS;
const AUTHORITY_MS = 3 * 365 * DAY_MS;
/** Clients refuse certificates for longer than about a year. */
const HOST_MS = 90 * DAY_MS;
/** Certificates that are kept ready; of more hosts, those of the longest ago are made again. */
const KEPT_LIMIT = 256;

/** Makes an authority, with a new key (ECDSA on P-256, as RFC 5280 and RFC 5480 have it). */
export function createAuthority(nowMs: number): Authority {
  const keys = newKeys();
  // A client finds an authority by its name: those of two runs have two.
  const name = nameOf(`Dev, for one run (${randomBytes(8).toString("hex")})`);
  const own = issue({
    subject: name,
    issuer: name,
    publicKey: keys.publicKey,
    signer: keys.privateKey,
    fromMs: nowMs - SKEW_MS,
    untilMs: nowMs + AUTHORITY_MS,
    extensions: [
      extension(id_ce_basicConstraints, new BasicConstraints({ cA: true, pathLenConstraint: 0 })),
      extension(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.keyCertSign)),
      extension(id_ce_subjectKeyIdentifier, new SubjectKeyIdentifier(identifierOf(keys.publicKey))),
    ],
  });
  const kept = new Map<string, { readonly context: SecureContext; readonly untilMs: number }>();
  const make = (host: Host, nowMs: number): SecureContext => {
    const { publicKey, privateKey } = newKeys();
    const cert = issue({
      subject: nameOf("a host, as Dev shows it"),
      issuer: name,
      publicKey,
      signer: keys.privateKey,
      fromMs: nowMs - SKEW_MS,
      untilMs: nowMs + HOST_MS,
      extensions: [
        extension(id_ce_subjectAltName, new SubjectAlternativeName([generalNameOf(host)])),
        extension(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.digitalSignature)),
        extension(id_ce_extKeyUsage, new ExtendedKeyUsage([id_kp_serverAuth])),
        extension(
          id_ce_authorityKeyIdentifier,
          new AuthorityKeyIdentifier({
            keyIdentifier: new SubjectKeyIdentifier(identifierOf(keys.publicKey)),
          }),
        ),
      ],
    });
    const key = privateKey.export({ type: "pkcs8", format: "pem" });
    return createSecureContext({ key, cert: cert + own, minVersion: "TLSv1.2" });
  };
  return {
    certificate: own,
    contextOf: (host, nowMs) => {
      const known = kept.get(host.name);
      if (known !== undefined && nowMs < known.untilMs) return known.context;
      const context = make(host, nowMs);
      kept.delete(host.name);
      kept.set(host.name, { context, untilMs: nowMs + HOST_MS / 2 });
      const [oldest] = kept.keys();
      if (kept.size > KEPT_LIMIT && oldest !== undefined) kept.delete(oldest);
      return context;
    },
  };
}

type Keys = { readonly publicKey: KeyObject; readonly privateKey: KeyObject };

function newKeys(): Keys {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

type Issued = {
  readonly subject: Name;
  readonly issuer: Name;
  readonly publicKey: KeyObject;
  readonly signer: KeyObject;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly extensions: readonly Extension[];
};

const ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2";
const COMMON_NAME = "2.5.4.3";
const VERSION_3 = 2;

function issue(issued: Issued): string {
  const algorithm = new AlgorithmIdentifier({ algorithm: ECDSA_WITH_SHA256 });
  const serial = randomBytes(16);
  // Positive, and of a fixed length.
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40;
  const spki = issued.publicKey.export({ type: "spki", format: "der" });
  const tbsCertificate = new TBSCertificate({
    version: VERSION_3,
    serialNumber: bufferOf(serial),
    signature: algorithm,
    issuer: issued.issuer,
    validity: new Validity({
      notBefore: new Date(issued.fromMs),
      notAfter: new Date(issued.untilMs),
    }),
    subject: issued.subject,
    subjectPublicKeyInfo: AsnConvert.parse(bufferOf(spki), SubjectPublicKeyInfo),
    extensions: new Extensions([...issued.extensions]),
  });
  const toBeSigned = Buffer.from(AsnConvert.serialize(tbsCertificate));
  const certificate = new Certificate({
    tbsCertificate,
    signatureAlgorithm: algorithm,
    signatureValue: bufferOf(sign("sha256", toBeSigned, issued.signer)),
  });
  const der = Buffer.from(AsnConvert.serialize(certificate));
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function extension(id: string, value: object): Extension {
  const extnValue = new OctetString(AsnConvert.serialize(value));
  return new Extension({ extnID: id, critical: CRITICAL.has(id), extnValue });
}

const CRITICAL: ReadonlySet<string> = new Set([id_ce_basicConstraints, id_ce_keyUsage]);

/** Any value that is the key's own will do (RFC 7093). */
function identifierOf(key: KeyObject): ArrayBuffer {
  const spki = key.export({ type: "spki", format: "der" });
  return bufferOf(createHash("sha256").update(spki).digest().subarray(0, 20));
}

function nameOf(text: string): Name {
  const value = new AttributeValue({ utf8String: text });
  const attribute = new AttributeTypeAndValue({ type: COMMON_NAME, value });
  return new Name([new RelativeDistinguishedName([attribute])]);
}

function generalNameOf(host: Host): GeneralName {
  return host.kind === "name"
    ? new GeneralName({ dNSName: host.name })
    : new GeneralName({ iPAddress: host.name });
}

function bufferOf(bytes: Uint8Array): ArrayBuffer {
  return Uint8Array.from(bytes).buffer;
}
