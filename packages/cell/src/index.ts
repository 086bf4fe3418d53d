export * from "./vendor.ts";
