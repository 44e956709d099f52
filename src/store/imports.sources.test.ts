import { describe, expect, it } from 'vitest'
import { openStoreFolder } from '../../test/store/store-folder.ts'

const CANARY = 'canary-key-of-a-source-900150983cd2'
const SOURCE = {
  key: 'Weather',
  options: { type: 'otc', url: 'https://weather.example', apiKey: CANARY },
  addedBy: 'cli:ann',
  addedMs: 1_000,
  replace: false,
}

describe('stored sources in SQLite', () => {
  it('rule 14: the database contains no option in plain text, and all options are there after a restart', async () => {
    const folder = openStoreFolder(Date.now)
    const store = folder.open()
    await store.sources.put(SOURCE)
    expect(folder.bytes()).toContain('Weather')
    expect(folder.bytes()).not.toContain(CANARY)
    await store.close()
    expect(folder.bytes()).not.toContain(CANARY)
    const again = folder.open()
    expect((await again.sources.list())[0]?.options).toEqual(SOURCE.options)
    expect(again.sources.epoch()).toBe(1)
    await again.close()
  })

  it.each([
    ['changed options', "UPDATE sources SET options = CAST(x'ff' || substr(options, 2) AS BLOB)"],
    ['options moved to another source', "UPDATE sources SET key = 'Other'"],
  ])('rule 14: %s are an error for the operator, and the source can be removed', async (_title, sql) => {
    const folder = openStoreFolder(Date.now)
    const store = folder.open()
    await store.sources.put(SOURCE)
    await store.close()
    folder.tamper(sql)
    const again = folder.open()
    expect(() => again.sources.list()).toThrow(expect.objectContaining({ code: 'unreadable' }))
    for (const key of ['Weather', 'Other']) await again.sources.remove({ key, by: 'cli:ann', atMs: 2_000 })
    expect(again.sources.list()).toEqual([])
    await again.close()
  })

  it('another process on the same file sees a change at once', async () => {
    const folder = openStoreFolder(Date.now)
    const [server, cli] = [folder.open(), folder.open()]
    expect(server.sources.epoch()).toBe(0)
    await cli.sources.put(SOURCE)
    expect(server.sources.epoch()).toBe(1)
    expect((await server.sources.list()).map(({ key }) => key)).toEqual(['Weather'])
    await server.close()
    await cli.close()
  })
})
