// What `node:test` gives a test file, for a run in a realm: tests one after the other, results counted.
import { mock } from "node:test";

const HOOKS = ["before", "after", "beforeEach", "afterEach"];
/** What would change the host, or cannot be done in a realm. */
const UNFIT_MOCKS = /^(timers|module)$/;

export class TestRun {
  failed = [];
  ranCount = 0;
  hasFailed = false;
  #given;
  #root = node(null, "", "root");
  #at = this.#root;
  #now = null;
  #isStarted = false;
  #queue = Promise.resolve();

  constructor(given) {
    this.#given = given;
  }

  /** Resolves when all tests that were declared have run. */
  async done() {
    let seen;
    do {
      seen = this.#queue;
      await seen;
    } while (seen !== this.#queue);
    if (this.#isStarted) await this.#hooks(this.#root, "after");
  }

  /** Something was thrown where nobody catches it: the test that runs has failed. */
  fail(error) {
    if (this.#now === null) return false;
    this.#now.reject(error);
    return true;
  }

  get module() {
    const test = this.#declarer("test");
    const suite = this.#declarer("suite");
    const made = Object.assign(test, { test, it: this.#declarer("test"), describe: suite, suite });
    for (const name of HOOKS)
      made[name] = (act, options) => this.#hook(this.#at, name, act, options);
    made.mock = this.#mock();
    made.default = made;
    for (const name of ["run", "snapshot", "assert"]) {
      Object.defineProperty(made, name, { get: () => this.#given.unsure(), enumerable: false });
    }
    return made;
  }

  #mock() {
    return new Proxy(mock, {
      get: (target, name) => {
        if (UNFIT_MOCKS.test(String(name))) this.#given.unsure();
        const value = target[name];
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  #declarer(kind) {
    const declare = (...given) => this.#declare(this.#at, kind, given, {});
    for (const mark of ["skip", "todo", "only"]) {
      declare[mark] = (...given) => this.#declare(this.#at, kind, given, { [mark]: true });
    }
    return declare;
  }

  #declare(parent, kind, given, marks) {
    const { name, options, act } = read(given);
    if (options.only || marks.only || options.plan !== undefined) this.#given.unsure();
    const made = node(parent, name, kind);
    Object.assign(made, { act, options: { ...options, ...marks } });
    if (kind === "suite") this.#fill(made);
    if (parent !== this.#root) {
      if (parent.kind === "suite") return void parent.children.push(made);
      // A test in a test runs at once, and the outer one waits for it by itself, or has failed.
      const ran = this.#runOne(made);
      parent.open.add(ran);
      const close = () => parent.open.delete(ran);
      ran.then(close, close);
      return ran;
    }
    this.#isStarted = true;
    const ran = this.#queue.then(async () => {
      // Not before the module that declares it has come to its end, as far as it does at once.
      await new Promise((resolve) => setImmediate(resolve));
      await this.#hooks(this.#root, "before");
      await this.#runOne(made);
    });
    this.#queue = ran;
    return ran;
  }

  /** What a suite declares is declared at once. */
  #fill(suite) {
    if (suite.options.skip || suite.act === undefined) return;
    const outer = this.#at;
    this.#at = suite;
    try {
      const made = suite.act({ name: suite.name, signal: new AbortController().signal });
      if (typeof made?.then === "function") suite.filling = made;
      suite.filling?.catch?.(() => {});
    } catch (error) {
      suite.error = error ?? new Error("thrown");
    } finally {
      this.#at = outer;
    }
  }

  #hook(owner, name, act, options) {
    if (options !== undefined && options !== null && options.timeout !== undefined)
      this.#given.unsure();
    owner.hooks[name].push(act);
  }

  async #hooks(owner, name) {
    if (name === "before" || name === "after") {
      if (owner.did.has(name)) return;
      owner.did.add(name);
    }
    for (const act of owner.hooks[name]) await called(act, context({ name: owner.name }));
  }

  async #runOne(test) {
    if (test.options.skip) return;
    if (test.kind === "suite") return this.#runSuite(test);
    const { patterns } = this.#given;
    if (
      patterns.length > 0 &&
      !patterns.some((pattern) => named(test).some((name) => pattern.test(name)))
    ) {
      return;
    }
    const outer = this.#now;
    const ending = ended();
    this.#now = ending;
    try {
      await this.#runAct(test, ending);
      this.#given.onPass(full(test));
    } catch (error) {
      if (!test.options.todo && !test.isTodo) this.#bad(test, error);
    } finally {
      this.#now = outer;
    }
    if (!test.isSkipped && !test.options.todo && !test.isTodo) this.ranCount += 1;
  }

  async #runAct(test, ending) {
    const above = lineage(test.parent);
    for (const owner of above) if (owner !== this.#root) await this.#hooks(owner, "before");
    const around = async () => {
      for (const owner of above) await this.#hooks(owner, "beforeEach");
      const ran = called(test.act, this.#context(test));
      await Promise.race([timed(ran, test.options.timeout), ending.promise]);
      if (test.open.size > 0) throw new Error("a test in it was not waited for");
      if (test.badCount > 0) throw new Error("a test in it failed");
    };
    try {
      await around();
    } finally {
      for (const owner of above.reverse()) await this.#hooks(owner, "afterEach");
      await this.#hooks(test, "after");
      mock.restoreAll();
    }
  }

  async #runSuite(suite) {
    try {
      if (suite.error !== undefined) throw suite.error;
      await suite.filling;
      for (const owner of lineage(suite))
        if (owner !== this.#root) await this.#hooks(owner, "before");
    } catch (error) {
      return this.#bad(suite, error);
    }
    for (const child of suite.children) await this.#runOne(child);
    try {
      await this.#hooks(suite, "after");
    } catch (error) {
      this.#bad(suite, error);
    }
  }

  #bad(test, _error) {
    this.hasFailed = true;
    if (test.parent !== null) test.parent.badCount += 1;
    if (test.badCount === 0 || test.kind === "suite") this.failed.push(full(test));
    if (this.#given.isEarly) this.#given.stop();
  }

  #context(test) {
    const own = {
      name: test.name,
      fullName: full(test),
      signal: new AbortController().signal,
      mock: this.#mock(),
      diagnostic() {},
      skip() {
        test.isSkipped = true;
      },
      todo() {
        test.isTodo = true;
      },
      test: (...given) => this.#declare(test, "test", given, {}),
    };
    for (const name of HOOKS) own[name] = (act, options) => this.#hook(test, name, act, options);
    return context(own, () => this.#given.unsure());
  }
}

/** An object that knows when it is asked for what it does not have. */
function context(own, unsure) {
  return new Proxy(own, {
    get(target, name) {
      if (!(name in target) && typeof name === "string" && name !== "then") unsure?.();
      return target[name];
    },
  });
}

function node(parent, name, kind) {
  const hooks = Object.fromEntries(HOOKS.map((hook) => [hook, []]));
  return {
    parent,
    name,
    kind,
    hooks,
    children: [],
    open: new Set(),
    did: new Set(),
    badCount: 0,
    options: {},
  };
}

function read(given) {
  let [name, options, act] = given;
  if (typeof name === "function") [name, options, act] = [undefined, {}, name];
  else if (typeof name === "object" && name !== null)
    [name, options, act] = [undefined, name, options];
  else if (typeof options === "function") [options, act] = [{}, options];
  return { name: name || act?.name || "<anonymous>", options: options ?? {}, act };
}

function lineage(owner) {
  return owner === null ? [] : [...lineage(owner.parent), owner];
}

function named(test) {
  return lineage(test)
    .map(({ name }) => name)
    .filter(Boolean)
    .concat(full(test));
}

function full(test) {
  return lineage(test)
    .map(({ name }) => name)
    .filter(Boolean)
    .join(" > ");
}

function called(act, given) {
  if (act === undefined) return undefined;
  if (act.length < 2) return act(given);
  return new Promise((resolve, reject) => {
    const made = act(given, (error) => (error ? reject(error) : resolve()));
    if (typeof made?.then === "function") reject(new Error("a promise and a callback"));
  });
}

function timed(ran, timeoutMs) {
  if (timeoutMs === undefined || timeoutMs === Number.POSITIVE_INFINITY) return ran;
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("too late")), timeoutMs);
    Promise.resolve(ran)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}

function ended() {
  const made = {};
  made.promise = new Promise((_, reject) => {
    made.reject = reject;
  });
  made.promise.catch(() => {});
  return made;
}
