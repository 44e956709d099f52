import { hash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MIGRATIONS } from '#store/schema'
import { migrateStore, openStore } from '#store/stores'
import { createDatabase, query } from './databases.ts'
import { goOn, lookAround } from './lived-in.ts'

const FOLDER = new URL('upgrade/', import.meta.url)

let dataFolder: string

beforeAll(() => {
  dataFolder = mkdtempSync(join(tmpdir(), 'collet-upgrade-'))
})
afterAll(() => rmSync(dataFolder, { recursive: true }))

/** A database as an earlier version left it. */
const LOADS = {
  async sqlite(version: string) {
    const file = join(dataFolder, `${version}.db`)
    const database = new DatabaseSync(file)
    database.exec(read(version, 'sqlite.sql'))
    database.close()
    return `sqlite:${file}`
  },
  async postgres(version: string) {
    const url = await createDatabase(`upgrade_${version.replaceAll(/\W/g, '_')}`)
    await query(url, read(version, 'postgres.sql'))
    return url
  },
}

describe.each(readdirSync(FOLDER))('a store that version %s wrote', (version) => {
  const facts = JSON.parse(read(version, 'facts.json'))
  const key = { dataFolder: '.', masterKey: Buffer.from(facts.masterKey, 'base64') }

  it('lacks only steps at the end: those that it has taken are never changed', () => {
    const steps = hash('sha256', MIGRATIONS.slice(0, facts.schema).join('\0'), 'base64url')
    expect(
      steps,
      'add a step to MIGRATIONS; before the first release, run scripts/make-upgrade-fixture.ts',
    ).toBe(facts.steps)
  })

  it.each(['sqlite', 'postgres'] as const)(
    'on %s opens, migrates, gives its outcomes again and goes on',
    async (kind) => {
      const { heads, seen } = facts[kind]
      const url = await LOADS[kind](version)
      expect(await migrateStore(url, key, 'look')).toEqual({ from: facts.schema, to: MIGRATIONS.length })
      const store = await openStore(url, { ...key, mode: 'server' })
      try {
        expect(JSON.parse(JSON.stringify(await lookAround(store)))).toMatchObject(seen)
        expect(seen.states).toEqual(['succeeded', 'succeeded', 'parked', 'parked', 'ambiguous'])
        expect(await goOn(store, heads)).toEqual(['found', 'claimed', 'settled', true])
        expect(await store.verify()).toMatchObject({ ok: true })
      } finally {
        await store.close()
      }
      expect(await migrateStore(url, key, 'look')).toEqual({ from: MIGRATIONS.length, to: MIGRATIONS.length })
    },
  )
})

function read(version: string, name: string): string {
  return readFileSync(new URL(`${version}/${name}`, FOLDER), 'utf8')
}
