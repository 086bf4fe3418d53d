import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from "kysely";
import type Database from "libsql";

/** Prepared statements kept by their text; queries are few, so reaching this means one is built up. */
const STATEMENT_LIMIT = 200;

/**
 * Kysely over a libsql database that the caller has opened. It differs from Kysely's own SQLite driver in
 * two things: a transaction takes the write lock as it begins (a later upgrade could not wait for it
 * without deadlock), and statements are prepared once.
 */
export function libsqlDialect(database: Database.Database): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => libsqlDriver(database),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

function libsqlDriver(database: Database.Database): Driver {
  const connection = libsqlConnection(database);
  // One connection: whoever wants it next waits until it is given back.
  let last: Promise<void> = Promise.resolve();
  let giveBack: () => void = () => undefined;
  return {
    init: async () => undefined,
    acquireConnection: async () => {
      const before = last;
      const { promise, resolve } = gate();
      last = promise;
      await before;
      giveBack = resolve;
      return connection;
    },
    releaseConnection: async () => giveBack(),
    beginTransaction: async (_connection, settings: TransactionSettings) => {
      database.exec(settings.accessMode === "read only" ? "begin" : "begin immediate");
    },
    commitTransaction: async () => void database.exec("commit"),
    rollbackTransaction: async () => {
      // Some failures, such as a full disk, have rolled the transaction back already.
      if (database.inTransaction) database.exec("rollback");
    },
    destroy: async () => void database.close(),
  };
}

function libsqlConnection(database: Database.Database): DatabaseConnection {
  const statements = new Map<string, Database.Statement>();
  const prepared = (text: string): Database.Statement => {
    const known = statements.get(text);
    if (known !== undefined) return known;
    if (statements.size >= STATEMENT_LIMIT) statements.clear();
    const statement = database.prepare(text);
    statements.set(text, statement);
    return statement;
  };
  return {
    executeQuery: async <R>(query: CompiledQuery): Promise<QueryResult<R>> => {
      for (const value of query.parameters) {
        // The text would be cut there without a word.
        if (typeof value === "string" && value.includes("\0")) throw new Error("a NUL in a text");
      }
      const statement = prepared(query.sql);
      if (statement.reader) return { rows: statement.all([...query.parameters]) as R[] };
      const { changes } = statement.run([...query.parameters]);
      return { rows: [], numAffectedRows: BigInt(changes) };
    },
    // biome-ignore lint/correctness/useYield: nothing streams, and this says so to who tries.
    streamQuery: async function* () {
      throw new Error("this driver does not stream");
    },
  };
}

function gate(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
