export * from "./router.ts";
