import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { drive, get, write } from '#kernel/store/engine'
import { KeyRing } from '#kernel/store/key-ring'
import { DEFINITION } from '#store/collet-store'
import { openDatabase } from './engine.ts'

const { migrations: MIGRATIONS } = DEFINITION

const NEXT = `ALTER TABLE writers ADD COLUMN host TEXT;
  CREATE TABLE hosts (name TEXT PRIMARY KEY) STRICT;`

const keys = new KeyRing({ current: randomBytes(32) })
let folder: string
let path: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-migrations-'))
  path = join(folder, 'collet.db')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function open(migrations: readonly string[] = MIGRATIONS, openedWith = keys) {
  return openDatabase(path, openedWith, { definition: { ...DEFINITION, migrations } })
}

/** The content of a database of any version, read without opening it as that version. */
function fill(): void {
  const database = open()
  database.answer(write('writeMeta', 'kept', 'yes'))
  database.close()
}

function version(database: ReturnType<typeof open>): unknown {
  return database.pragma('user_version')?.user_version
}

describe('a database of an earlier version', () => {
  it('gets the missing migrations and keeps its data', () => {
    fill()
    const database = open([...MIGRATIONS, NEXT])
    database.exec("INSERT INTO hosts (name) VALUES ('one')")
    expect(drive(get('readMeta', 'kept'), (ask) => database.answer(ask))).toEqual({ value: 'yes' })
    expect(version(database)).toBe(MIGRATIONS.length + 1)
    database.close()
    const again = open([...MIGRATIONS, NEXT])
    expect(version(again)).toBe(MIGRATIONS.length + 1)
    again.close()
  })

  it('is migrated once by two processes that open it at the same time', () => {
    fill()
    const both = [open([...MIGRATIONS, NEXT]), open([...MIGRATIONS, NEXT])]
    for (const database of both) {
      expect(version(database)).toBe(MIGRATIONS.length + 1)
      database.close()
    }
  })

  it('stays unchanged if a migration fails, and with another key', () => {
    fill()
    expect(() => open([...MIGRATIONS, `${NEXT} CREATE TABLE hosts (name TEXT);`])).toThrow('already exists')
    expect(() => open([...MIGRATIONS, NEXT], new KeyRing({ current: randomBytes(32) }))).toThrow(
      'key does not fit',
    )
    const database = open()
    expect(version(database)).toBe(MIGRATIONS.length)
    expect(() => database.exec('SELECT host FROM writers')).toThrow('no such column')
    database.close()
  })
})

it('a database of a later version is refused', () => {
  open([...MIGRATIONS, NEXT]).close()
  expect(open).toThrow(
    `newer Collet (schema ${MIGRATIONS.length + 1}); this version supports up to ${MIGRATIONS.length}`,
  )
})
