export * from "./action.ts";
export * from "./event.ts";
export * from "./fault.ts";
export * from "./id.ts";
export * from "./limit.ts";
export * from "./message.ts";
export * from "./op.ts";
export * from "./outcome.ts";
