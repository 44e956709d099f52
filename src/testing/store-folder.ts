import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { SqliteStore } from '#store/sqlite/sqlite-store'

/** A SQLite store in a folder of its own, whose file a test may look into and change behind its back. */
export function openStoreFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'collet-test-'))
  const path = join(folder, 'collet.db')
  return {
    path,
    open: () => new SqliteStore({ path, masterKey: new Uint8Array(32).fill(7) }),
    change(sql: string): void {
      const database = new DatabaseSync(path)
      database.exec(sql)
      database.close()
    },
    bytes: () =>
      readdirSync(folder)
        .filter((name) => name.startsWith('collet.db') && !name.endsWith('writers'))
        .map((name) => readFileSync(join(folder, name), 'latin1'))
        .join(''),
    remove: () => rmSync(folder, { recursive: true }),
  }
}
