import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { KeyRing } from '#kernel/store/key-ring'
import { DEFINITION } from '#store/collet-store'
import { createDatabase } from '../../../test/store/databases.ts'
import { Connection } from './connection.ts'
import { prepareDatabase } from './open.ts'

const { migrations: MIGRATIONS } = DEFINITION

const NEXT = `ALTER TABLE writers ADD COLUMN host TEXT;
  CREATE TABLE hosts (name TEXT PRIMARY KEY) STRICT;`

const keys = new KeyRing({ current: randomBytes(32) })

async function run(url: string, text: string) {
  const connection = await Connection.open(url)
  try {
    return (await connection.one({ text })).rows
  } finally {
    await connection.close()
  }
}

describe('a database', () => {
  it('is migrated once by two processes that open it at the same time, and gets the missing migrations', async () => {
    const url = await createDatabase('steps')
    await Promise.all([prepareDatabase(url, keys), prepareDatabase(url, keys)])
    await run(url, "INSERT INTO meta (name, value) VALUES ('kept', 'yes')")
    await prepareDatabase(url, keys, { migrations: [...MIGRATIONS, NEXT] })
    expect(await run(url, "SELECT value FROM meta WHERE name = 'kept'")).toEqual([{ value: 'yes' }])
    expect(await run(url, 'SELECT host FROM writers')).toEqual([])
    await expect(prepareDatabase(url, keys)).rejects.toThrow(
      `newer Collet (schema ${MIGRATIONS.length + 1}); this version supports up to ${MIGRATIONS.length}`,
    )
  })

  it('stays unchanged if a migration fails, and with another key', async () => {
    const url = await createDatabase('fails')
    await prepareDatabase(url, keys)
    const wrong = `${NEXT} CREATE TABLE hosts (name TEXT);`
    await expect(prepareDatabase(url, keys, { migrations: [...MIGRATIONS, wrong] })).rejects.toThrow(
      'already exists',
    )
    const other = new KeyRing({ current: randomBytes(32) })
    await expect(prepareDatabase(url, other, { migrations: [...MIGRATIONS, NEXT] })).rejects.toThrow(
      'key does not fit',
    )
    await expect(run(url, 'SELECT host FROM writers')).rejects.toThrow('does not exist')
    await prepareDatabase(url, keys)
  })

  it('is refused if it contains a trigger', async () => {
    const url = await createDatabase('triggers')
    await prepareDatabase(url, keys)
    await run(
      url,
      `CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
      CREATE TRIGGER more BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION more()`,
    )
    await expect(prepareDatabase(url, keys)).rejects.toThrow('trigger')
  })

  it('that does not exist is reported as such', async () => {
    const url = Object.assign(new URL(await createDatabase('there')), { pathname: 'nowhere' }).href
    await expect(prepareDatabase(url, keys)).rejects.toMatchObject({ code: 'unreadable' })
  })
})
