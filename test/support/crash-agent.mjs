/*
 * Put in front of the agent's own text, by a test: the agent kills itself at its n-th record of the
 * spool's log, before it is written or once it is durable, and never twice in one cell. What the log then
 * held is kept beside it. A cell is started with a clean environment, so what to do stands in the text.
 */
{
  const { at, when } = { at: 0, when: "before" }; // CRASH POINT
  // Not imported: the agent's own text imports these names itself.
  const { appendFileSync, copyFileSync, existsSync, readlinkSync, writeFileSync } =
    process.getBuiltinModule("node:fs");
  const handle = await process.getBuiltinModule("node:fs/promises").open("/dev/null");
  const prototype = Object.getPrototypeOf(handle);
  await handle.close();
  const { write, sync, datasync } = prototype;
  let count = 0;

  /** The spool's log that a descriptor is of, whole or being written anew; null for any other file. */
  const logOf = (/** @type {number} */ fd) => {
    const path = readlinkSync(`/proc/self/fd/${fd}`);
    return /\/spool\/log(\.new)?$/.test(path) ? path : null;
  };
  const next = (/** @type {string} */ path) => {
    count += 1;
    const directory = path.replace(/\/log(\.new)?$/, "");
    appendFileSync(`${directory}/notes`, `${count}\n`);
    if (when === "before") dieAt(path);
  };
  const dieAt = (/** @type {string} */ path) => {
    const log = path.replace(/\.new$/, "");
    if (count !== at || existsSync(`${log}.killed`)) return;
    if (existsSync(log)) copyFileSync(log, `${log}.killed`);
    else writeFileSync(`${log}.killed`, "");
    process.kill(process.pid, "SIGKILL");
  };

  prototype.write = function (/** @type {unknown[]} */ ...given) {
    const path = logOf(this.fd);
    if (path?.endsWith("/log")) next(path);
    return write.apply(this, given);
  };
  prototype.datasync = async function () {
    const path = logOf(this.fd);
    await datasync.call(this);
    if (path?.endsWith("/log") && when === "after") dieAt(path);
  };
  prototype.sync = async function () {
    const path = logOf(this.fd);
    const isNew = path?.endsWith("/log.new") === true;
    if (isNew) next(path);
    await sync.call(this);
    if (isNew && when === "after") dieAt(path);
  };
}
