// Loads modules into a realm, CommonJS and ECMAScript, with the texts of a candidate in place of the files'.
import { readFileSync } from "node:fs";
import { builtinModules, createRequire, isBuiltin } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import vm from "node:vm";

const WRAPPER = ["(function (exports, require, module, __filename, __dirname) { ", "\n})"];
/** Scripts belong to no realm, so what has not changed is compiled once. */
const scripts = new Map();
const resolved = new Map();
const kinds = new Map();
/** The loader that runs now: a script that is shared cannot know whose it is. */
let running = null;

export class Loader {
  isUnsure = false;
  #given;
  #required = new Map();
  #imported = new Map();
  #main = null;
  #parseJson;

  constructor(given) {
    this.#given = given;
    this.#parseJson = vm.runInContext("JSON.parse", given.context);
    running = this;
  }

  /** Whether every text that a candidate changed is a program at all. */
  parses() {
    for (const [path, text] of this.#given.texts) {
      if (!/\.[cm]?js$/.test(path)) continue;
      try {
        if (this.#kind(path, text) === "module") this.#sourceModule(path, text);
        else this.#script(path, text);
      } catch {
        return false;
      }
    }
    return true;
  }

  async start(entry) {
    const text = this.#text(entry);
    if (this.#kind(entry, text) !== "module") return void this.require(entry);
    const module = await this.import(pathToFileURL(entry).href);
    await module.evaluate();
  }

  require(path) {
    const known = this.#required.get(path);
    if (known !== undefined) return known.exports;
    const extension = extname(path);
    if (extension === ".node") return createRequire(path)(path);
    const text = this.#text(path);
    const module = {
      exports: this.#object(),
      id: path,
      path: dirname(path),
      filename: path,
      loaded: false,
      children: [],
      paths: [],
      parent: this.#main,
    };
    this.#main ??= module;
    this.#required.set(path, module);
    try {
      if (extension === ".json") module.exports = this.#parseJson(text.replace(/^\uFEFF/, ""));
      else this.#run(module, text);
    } catch (error) {
      this.#required.delete(path);
      throw error;
    }
    module.loaded = true;
    return module.exports;
  }

  #run(module, text) {
    const { filename } = module;
    if (this.#kind(filename, text) === "module") this.#giveUp("a module is required");
    const require = this.#requireOf(filename);
    module.require = require;
    const compiled = this.#script(filename, text).runInContext(this.#given.context);
    Reflect.apply(compiled, module.exports, [
      module.exports,
      require,
      module,
      filename,
      dirname(filename),
    ]);
  }

  #requireOf(from) {
    const require = (specifier) => {
      if (isBuiltin(specifier)) return this.#builtin(specifier);
      return this.require(this.#resolve(from, specifier));
    };
    require.resolve = (specifier, options) => createRequire(from).resolve(specifier, options);
    require.main = this.#main;
    require.cache = Object.create(null);
    require.extensions = Object.create(null);
    return require;
  }

  async import(url, attributes = {}) {
    if (!this.#imported.has(url)) this.#imported.set(url, this.#load(url, attributes));
    const module = await this.#imported.get(url);
    if (module.status === "unlinked") {
      this.#linking ??= new Map();
      if (!this.#linking.has(url)) {
        this.#linking.set(
          url,
          module.link((specifier, from) => this.#linked(specifier, from)),
        );
      }
      await this.#linking.get(url);
    }
    return module;
  }

  #linking;

  async #linked(specifier, from) {
    const url = this.#url(specifier, from.identifier);
    if (!this.#imported.has(url)) this.#imported.set(url, this.#load(url));
    return this.#imported.get(url);
  }

  async #load(url) {
    if (isBuiltin(url)) return this.#synthetic(url, this.#builtin(url), true);
    const path = fileURLToPath(url);
    if (/\.(json|node)$/.test(path)) return this.#synthetic(url, this.require(path), false);
    const text = this.#text(path);
    if (this.#kind(path, text) === "module") return this.#sourceModule(path, text);
    return this.#synthetic(url, this.require(path), true);
  }

  async dynamic(specifier, from) {
    const module = await this.import(this.#url(specifier, pathToFileURL(from).href));
    if (module.status === "linked") await module.evaluate();
    return module;
  }

  #sourceModule(path, text) {
    return new vm.SourceTextModule(text, {
      identifier: pathToFileURL(path).href,
      context: this.#given.context,
      initializeImportMeta: (meta) => {
        meta.url = pathToFileURL(path).href;
        meta.filename = path;
        meta.dirname = dirname(path);
        meta.resolve = (specifier) => this.#url(specifier, meta.url);
      },
      importModuleDynamically: (specifier) => this.dynamic(specifier, path),
    });
  }

  #synthetic(url, value, isNamed) {
    const isObject = value !== null && (typeof value === "object" || typeof value === "function");
    const keys = isNamed && isObject ? Object.keys(value).filter((key) => key !== "default") : [];
    return new vm.SyntheticModule(
      ["default", ...keys],
      function fill() {
        this.setExport("default", value);
        for (const key of keys) this.setExport(key, value[key]);
      },
      { identifier: url, context: this.#given.context },
    );
  }

  #builtin(specifier) {
    const { own, context, builtins, run } = this.#given;
    const name = specifier.replace(/^node:/, "");
    if (name === "module") {
      const createOwn = (from) =>
        this.#requireOf(
          from instanceof URL || String(from).startsWith("file:") ? fileURLToPath(from) : from,
        );
      return { createRequire: createOwn, builtinModules, isBuiltin };
    }
    if (name.startsWith("test/")) this.#giveUp("an unknown module");
    return own(name, context) ?? builtins.load(specifier, run);
  }

  #resolve(from, specifier) {
    const key = `${dirname(from)}\n${specifier}`;
    const known = resolved.get(key);
    if (known !== undefined) return known;
    const path = createRequire(from).resolve(specifier);
    resolved.set(key, path);
    return path;
  }

  #url(specifier, from) {
    if (isBuiltin(specifier))
      return specifier.startsWith("node:") ? specifier : `node:${specifier}`;
    const key = `${from}\n${specifier}`;
    const known = resolved.get(key);
    if (known !== undefined) return known;
    const url = import.meta.resolve(specifier, from);
    if (!url.startsWith("file:") && !url.startsWith("node:")) this.#giveUp("no file");
    resolved.set(key, url);
    return url;
  }

  #text(path) {
    return this.#given.texts.get(path) ?? readFileSync(path, "utf8");
  }

  #kind(path, text) {
    const extension = extname(path);
    if (extension === ".mjs") return "module";
    if (extension === ".cjs" || extension === ".json") return "commonjs";
    if (extension !== ".js" && extension !== "") this.#giveUp("no JavaScript");
    const type = typeOf(dirname(path));
    if (type !== "none") return type;
    if (!/^\s*(import|export)\b|\bimport\.meta\b|^\s*(const|let|var)\b.*\bawait\b/m.test(text))
      return "commonjs";
    try {
      this.#script(path, text);
      return "commonjs";
    } catch {
      return "module";
    }
  }

  #script(path, text) {
    const known = scripts.get(path);
    if (known?.text === text) return known.script;
    const script = new vm.Script(WRAPPER[0] + text.replace(/^#!.*/, "") + WRAPPER[1], {
      filename: path,
      importModuleDynamically: (specifier) => running.dynamic(specifier, path),
    });
    if (!this.#given.texts.has(path)) scripts.set(path, { text, script });
    return script;
  }

  #object() {
    return vm.runInContext("({})", this.#given.context);
  }

  #giveUp(why) {
    this.isUnsure = true;
    throw new Error(why);
  }
}

/** The `type` of the nearest package.json. */
function typeOf(directory) {
  const known = kinds.get(directory);
  if (known !== undefined) return known;
  let type;
  try {
    const declared = JSON.parse(readFileSync(join(directory, "package.json"), "utf8")).type;
    type = declared === "module" || declared === "commonjs" ? declared : "none";
  } catch {
    const above = dirname(directory);
    type = above === directory ? "none" : typeOf(above);
  }
  kinds.set(directory, type);
  return type;
}
