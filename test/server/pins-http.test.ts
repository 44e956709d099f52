import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { Pins } from '#sources/kit/pins'
import { openStore } from '#store/stores'
import { sampleOffer } from '../contracts/source-contract.ts'
import { sampleDiscovery, sampleSource } from '../samples/sources.ts'
import { key, type PrincipalsServer, startPrincipalsServer } from './principals-server.ts'

let server: PrincipalsServer

beforeAll(async () => {
  server = await startPrincipalsServer(
    {
      auth: {
        apiKeys: [
          key('ops', ['admin:pins'], { tenant: 'default' }),
          key('stranger', ['*'], { tenant: 'globex' }),
          key('plain', ['mail:*']),
        ],
        jwt: undefined,
      },
    },
    'sqlite',
  )
})

afterAll(() => server.stop())

describe('/admin/pins', () => {
  it('rule 32: shows pending changes with their differences, and accepts decisions about exactly those', async () => {
    const store = await openStore(server.settings.store, { ...server.settings, mode: 'operator' })
    const pins = new Pins({ store, clock: SYSTEM_CLOCK, log: SILENT_LOGGER })
    await pins.observe(sampleSource(), sampleDiscovery([sampleOffer('a'), sampleOffer('b')]))
    await pins.observe(sampleSource(), sampleDiscovery([sampleOffer('a', { title: 'A' }), sampleOffer('b')]))
    await store.close()
    const ask = (path: string, body?: object) =>
      server.ask(`/admin/pins${path}`, {
        key: 'k-ops',
        ...(body === undefined ? {} : { method: 'POST', body }),
      })

    const listed = await ask('?waiting=true&source=files')
    expect(listed.headers['cache-control']).toBe('no-store')
    expect(listed.json.pins).toMatchObject([
      {
        source: 'files',
        tool: 'files.a',
        native_name: 'a',
        state: 'served',
        version: '1.0.0',
        accepted_by: 'first sight',
        waiting: { kind: 'change', class: 'wording', rejected_by: null },
      },
    ])
    expect((await ask('')).json.pins).toHaveLength(2)
    const diff = await ask('/files.a')
    expect(diff.json).toMatchObject({
      next_version: '1.0.1',
      differences: [{ where: 'title', class: 'wording', says: 'is new', after: 'A' }],
    })
    expect((await ask('/files.none')).status).toBe(404)
    expect((await ask('/files.a/accept', { hash: 'other' })).status).toBe(400)
    expect((await ask('/files.a/accept', { hush: 'other' })).status).toBe(400)
    expect((await ask('/files.b/accept', {})).json.message).toContain('No change to')
    const accepted = await ask('/files.a/accept', { hash: diff.json.waiting.hash })
    expect(accepted.json).toMatchObject({ version: '1.0.1', accepted_by: 'key:ops', waiting: null })
    expect((await ask('/accept', { source: 'files' })).json).toEqual({ accepted: [] })
    expect((await ask('/accept', {})).status).toBe(400)
  })

  it('rule 32: accepts all reviewed changes of a source, and none when one changed since the review', async () => {
    const store = await openStore(server.settings.store, { ...server.settings, mode: 'operator' })
    const pins = new Pins({ store, clock: SYSTEM_CLOCK, log: SILENT_LOGGER })
    const source = sampleSource({ key: 'notes' })
    const offer = (title: string) =>
      pins.observe(source, sampleDiscovery(['a', 'b'].map((name) => sampleOffer(name, { title }))))
    await offer('Zero')
    await offer('First')
    const ask = (path: string, body?: object) =>
      server.ask(`/admin/pins${path}`, {
        key: 'k-ops',
        ...(body === undefined ? {} : { method: 'POST', body }),
      })
    const looked = async () =>
      Object.fromEntries(
        (await ask('?waiting=true&source=notes')).json.pins.map(
          ({ tool, waiting }: { tool: string; waiting: { hash: string } }) => [tool, waiting.hash],
        ),
      )
    const before = await looked()
    expect(Object.keys(before)).toEqual(['notes.a', 'notes.b'])
    await offer('Second')
    await store.close()
    const refused = await ask('/accept', { source: 'notes', hashes: before })
    expect(refused.status).toBe(400)
    expect(refused.json.message).toBe(
      'Nothing was accepted: the change that waits for notes.a and 1 more is not the one you reviewed. Review it again: collet pins list --source notes',
    )
    const now = await looked()
    expect(Object.keys(now)).toEqual(['notes.a', 'notes.b'])
    for (const hashes of ['all', [], { 'notes.a': 1 }])
      expect((await ask('/accept', { source: 'notes', hashes })).status).toBe(400)
    expect((await ask('/accept', { source: 'notes', hashes: now })).json).toEqual({
      accepted: ['notes.a', 'notes.b'],
    })
    expect(await looked()).toEqual({})
  })

  it.each([
    ['GET', '/admin/pins'],
    ['GET', '/admin/pins/files.a'],
    ['POST', '/admin/pins/accept'],
    ['POST', '/admin/pins/files.a/accept'],
    ['POST', '/admin/pins/files.a/reject'],
  ] as const)('needs the scope admin:pins, in the tenant of the server: %s %s', async (method, path) => {
    for (const name of ['plain', 'stranger']) {
      const body = method === 'POST' ? { body: {} } : {}
      expect((await server.ask(path, { method, key: `k-${name}`, ...body })).status).toBe(403)
    }
  })
})
