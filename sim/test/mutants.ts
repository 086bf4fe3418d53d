import type { Link, Vendor } from "@dev/cell";
import type { Message } from "@dev/protocol";
import { type Mutant, NO_MUTANT } from "@dev/sim";
import type { Claim, Store } from "@dev/store";

/*
 * Systems that are wrong in one place each. A simulator that lets one of them pass would let that
 * mistake pass in the real system too.
 */

/** The guards one by one: the ledger's memory, the spool's, its identity, and its disk's word. */
export const LEDGER_FORGETS: Mutant = { ...NO_MUTANT, name: "ledger", ledger: "forgets" };
export const SPOOL_FORGETS: Mutant = { ...NO_MUTANT, name: "spool", spool: "forgets" };
export const BOTH_FORGET: Mutant = { ...SPOOL_FORGETS, name: "both", ledger: "forgets" };
export const SPOOL_POSES: Mutant = { ...NO_MUTANT, name: "impostor", spool: "impostor" };
export const DISK_LIES: Mutant = { ...NO_MUTANT, name: "unsynced", spool: "unsynced" };

/** A dispatch is written some time after its effect has been asked for. */
export const DISPATCHES_LATE: Mutant = {
  ...NO_MUTANT,
  name: "late dispatch",
  wrap: (services, schedule) => {
    const { store } = services;
    const dispatch: Store["dispatch"] = async (claim, dispatches) => {
      schedule.after(() => void store.dispatch(claim, dispatches).catch(() => undefined), 60);
      return { ok: true, value: undefined };
    };
    return { ...services, store: { ...store, dispatch } };
  },
};

/** The cell is told that an outcome is safe when it has arrived, and not when it is written down. */
export const ACKNOWLEDGES_EARLY: Mutant = {
  ...NO_MUTANT,
  name: "early acknowledgement",
  wrap: (services) => ({
    ...services,
    vendor: linkedBy(services.vendor, (link) => ({
      ...delegate(link),
      perform: async (action, onOutput, signal) => {
        const performed = await link.perform(action, onOutput, signal);
        if (performed.ok) link.acknowledge([action.id]);
        return performed;
      },
    })),
  }),
};

/** Whoever writes is taken for the session's driver, at whatever sequence it has come to. */
export function withoutFence(): Mutant {
  let newest: Claim | null = null;
  const taken = (claim: Claim): Claim => newest ?? claim;
  return {
    ...NO_MUTANT,
    name: "no fence",
    wrap: (services) => {
      const { store } = services;
      const fenceless: Store = {
        ...store,
        create: async (session, holder) => {
          const claim = await store.create(session, holder);
          if (claim.ok) newest = claim.value;
          return claim;
        },
        claim: async (...given) => {
          const claim = await store.claim(...given);
          if (claim.ok) newest = claim.value;
          return claim;
        },
        append: async (claim, entry) => {
          const row = await store.session(claim.session);
          const expect = row.ok ? row.value.sequence : entry.expect;
          return store.append(taken(claim), { ...entry, expect });
        },
        dispatch: (claim, dispatches) => store.dispatch(taken(claim), dispatches),
        settle: (claim, settled) => store.settle(taken(claim), settled),
        save: (claim, save) => store.save(taken(claim), save),
      };
      return { ...services, store: fenceless };
    },
  };
}

/** An outcome that nobody can know is written down as one that is good. */
export const INVENTS: Mutant = {
  ...NO_MUTANT,
  name: "invented outcome",
  wrap: (services) => {
    const { store } = services;
    const append: Store["append"] = (claim, entry) => {
      const { event } = entry;
      if (event.kind !== "exec" || event.outcome.kind !== "unknown") {
        return store.append(claim, entry);
      }
      return store.append(claim, { ...entry, event: { ...event, outcome: GOOD } });
    };
    return { ...services, store: { ...store, append } };
  },
};

/** After a restart the model is not sent what it had been told before. */
export const FORGETS_RESULTS: Mutant = {
  ...NO_MUTANT,
  name: "forgotten results",
  wrap: (services) => {
    const { router } = services;
    return {
      ...services,
      router: {
        ...router,
        ask: (ask, ...rest) => {
          const messages = ask.messages.filter(({ kind }) => kind !== "tool");
          return router.ask({ ...ask, messages }, ...rest);
        },
      },
    };
  },
};

/** After a restart what sub-agents came to is not sent. */
export const FORGETS_AGENTS: Mutant = {
  ...NO_MUTANT,
  name: "forgotten sub-agents",
  wrap: (services) => {
    const { router, holder } = services;
    const ask: typeof router.ask = (given, ...rest) => {
      const spawns = new Set(given.messages.flatMap(spawnsIn));
      const messages = given.messages.map((message) =>
        message.kind === "tool" && spawns.has(message.ref) ? { ...message, text: "" } : message,
      );
      return router.ask(holder === "driver 1" ? given : { ...given, messages }, ...rest);
    };
    return { ...services, router: { ...router, ask } };
  },
};

/** An answer to a question is written down twice. */
export const ANSWERS_TWICE: Mutant = {
  ...NO_MUTANT,
  name: "doubled answer",
  wrap: (services) => {
    const { store } = services;
    const append: Store["append"] = async (claim, entry) => {
      const row = await store.session(claim.session);
      const expect = row.ok ? row.value.sequence : entry.expect;
      const done = await store.append(claim, { ...entry, expect });
      if (entry.event.kind !== "reply" || !done.ok) return done;
      return store.append(claim, { ...entry, expect: expect + 1, minted: [], dispatches: [] });
    };
    return { ...services, store: { ...store, append } };
  },
};

function spawnsIn(message: Message): readonly string[] {
  if (message.kind !== "assistant") return [];
  return message.calls.filter(({ op }) => op.kind === "spawn").map(({ ref }) => ref);
}

const GOOD = {
  kind: "ok",
  result: {
    kind: "exec",
    end: { kind: "exit", code: 0 },
    stdout: "",
    stderr: "",
    stdoutCutBytes: 0,
    stderrCutBytes: 0,
    durationMs: 0,
    outputPath: "",
  },
} as const;

function linkedBy(vendor: Vendor, wrap: (link: Link) => Link): Vendor {
  const wrapped = new Map<Link, Link>();
  const seen = (link: Link): Link => {
    const known = wrapped.get(link) ?? wrap(link);
    wrapped.set(link, known);
    return known;
  };
  const call =
    (method: Vendor["get"]): Vendor["get"] =>
    (id, spec, progress) =>
      method(id, spec, (observation) => {
        if (observation.kind !== "ready") return progress(observation);
        progress({ kind: "ready", link: seen(observation.link) });
      });
  return { ...vendor, create: call(vendor.create), get: call(vendor.get) };
}

function delegate(link: Link): Link {
  const { cell, generation, boundary, spool } = link;
  return {
    cell,
    generation,
    boundary,
    spool,
    perform: (...given) => link.perform(...given),
    acknowledge: (ids) => link.acknowledge(ids),
    open: (...given) => link.open(...given),
    collect: (signal) => link.collect(signal),
    close: () => link.close(),
  };
}
