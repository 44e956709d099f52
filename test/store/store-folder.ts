import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { onTestFinished } from 'vitest'
import type { Store } from '#store/collet-store'
import { openSqliteStore } from '#store/sqlite/sqlite-store'

/** A folder with one database, and every store that was opened on it. */
export class StoreFolder {
  readonly masterKey = randomBytes(32)
  readonly path: string
  readonly #folder: string
  readonly #open = new Set<Store>()
  readonly #nowMs: () => number

  constructor(nowMs: () => number = () => 1_000) {
    this.#nowMs = nowMs
    this.#folder = mkdtempSync(join(tmpdir(), 'collet-runs-'))
    this.path = join(this.#folder, 'collet.db')
  }

  open(): Store {
    const store = openSqliteStore({ path: this.path, masterKey: this.masterKey, nowMs: this.#nowMs })
    this.#open.add(store)
    return store
  }

  /** Ends a store like a process that dies with running calls: others see it as dead. */
  async leaveBehind(store: Store): Promise<void> {
    this.#open.delete(store)
    await store.close()
  }

  /** Changes the file without the stores' knowledge. */
  tamper(sql: string): void {
    const database = new DatabaseSync(this.path)
    database.exec(sql)
    database.close()
  }

  /** The content of all files in the database folder, as text. */
  bytes(): string {
    return readdirSync(this.#folder)
      .filter((name) => name.startsWith('collet.db') && !name.endsWith('writers'))
      .map((name) => readFileSync(join(this.#folder, name), 'latin1'))
      .join('')
  }

  async remove(): Promise<void> {
    for (const store of this.#open) await store.close()
    rmSync(this.#folder, { recursive: true })
  }
}

/** A folder that is removed after its test. */
export function openStoreFolder(nowMs?: () => number): StoreFolder {
  const folder = new StoreFolder(nowMs)
  onTestFinished(() => folder.remove())
  return folder
}
