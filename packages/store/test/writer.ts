import { openSqlite } from "@dev/store";
import { action, dead, dispatched, entry, fresh, must, named, ran, turn } from "./notation.ts";

// A process that drives session `n` of the store at `path` for `rounds` rounds, and says each sequence
// once it is durable. A round is a prompt that mints two actions, their dispatch, and one's outcome.
const [path = "", n = "1", rounds = "0"] = process.argv.slice(2);
const id = named(Number(n));
const store = must(await openSqlite(path));
const made = await store.create(fresh(Number(n)));
if (!made.ok && made.fault.code !== "exists") throw new Error(made.fault.message);
const claim = must(await store.claim(id, `process ${process.pid}`, dead, 1));
let { sequence } = must(await store.session(id));
let { length: first } = must(await store.ledger(id));
for (let round = 0; round < Number(rounds); round++, first += 2) {
  const minted = [action(first), action(first + 1)];
  must(await store.append(claim, entry(sequence++, turn(first, "x".repeat(2_000)), minted)));
  process.stdout.write(`${sequence}\n`);
  must(await store.dispatch(claim, [dispatched(first), dispatched(first + 1)]));
  must(await store.append(claim, entry(sequence++, ran(first))));
  process.stdout.write(`${sequence}\n`);
}
store.close();
