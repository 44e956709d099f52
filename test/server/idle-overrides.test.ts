import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { REAL_SERVICES } from '#cli/io'
import { readEnvironment } from '#config/environment'
import type { Settings } from '#config/settings'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { type RunningServer, startServer } from '#server/start-server'
import { SOURCE_OPTIONS } from '#sources/source-types'
import { FakeIo } from '../cli/fake-io.ts'
import { sqliteSettings } from '../test-settings.ts'

const COMMANDS = {
  'write-file': { description: 'Writes a file.', argv: ['true'] },
  'read-file': { description: 'Reads a file.', argv: ['true'] },
  'delete-file': { description: 'Deletes a file.', argv: ['true'] },
}

const LIST = z.object({ tools: z.array(z.object({ id: z.string() })) })

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function start(written: object, changes: Partial<Settings> = {}) {
  const options = SOURCE_OPTIONS.parse({ type: 'command', isolation: 'none', commands: COMMANDS, ...written })
  const settings = sqliteSettings({ sources: new Map([['Fs', options]]), ...changes })
  const server = await startServer(settings)
  closing.push(() => rmSync(settings.dataFolder, { recursive: true, force: true }))
  closing.push(() => server.close())
  return { server, settings }
}

async function toolsOf({ url }: RunningServer): Promise<readonly string[]> {
  const list = LIST.parse(await (await fetch(`${url}/tools`)).json())
  return list.tools.map(({ id }) => id.replace(/@.*/, ''))
}

async function sourceOf({ url }: RunningServer, { dataFolder }: Settings) {
  const io = new FakeIo({ fetch }, { workingFolder: dataFolder, environment: readEnvironment({}) })
  await io.run('sources', '--json', '--url', url, '--store', `sqlite:${join(dataFolder, 'collet.db')}`)
  return JSON.parse(io.stdout)[0]
}

/** The doctor's findings about one source with this configuration, on the store of a server. */
async function examine(settings: Settings, source: object) {
  const written = { type: 'command', isolation: 'none', commands: COMMANDS }
  const checks = await diagnose(settings, { Fs: { ...written, ...source } })
  return checks.filter(({ level }) => level !== 'ok')
}

/** All findings of the doctor about sources. */
async function diagnose({ dataFolder, masterKey }: Settings, sources: object) {
  const key = masterKey === undefined ? undefined : Buffer.from(masterKey).toString('base64')
  const store = `sqlite:${join(dataFolder, 'collet.db')}`
  writeFileSync(
    join(dataFolder, 'collet.config.json'),
    JSON.stringify({ store, server: { port: 0 }, sources }),
  )
  const environment = readEnvironment(key === undefined ? {} : { COLLET_KEY: key })
  const io = new FakeIo(REAL_SERVICES, { workingFolder: dataFolder, environment })
  await io.run('doctor', '--json')
  const checks: readonly { readonly subject: string; readonly level: string }[] = JSON.parse(io.stdout)
  return checks.filter(({ subject }) => subject === 'source')
}

describe('an operator’s override for a tool that does not exist', () => {
  it.each([
    [
      'an approval',
      { tools: { 'wirte-file': { approval: 'always' } } },
      'The approval rule for "wirte-file" matches no tool of this source.',
    ],
    ['scopes', { tools: { 'wirte-file': { scopes: ['files:write'] } } }, 'Did you mean "write-file"?'],
    ['a pattern, where names are exact', { tools: { 'write*': { approval: 'always' } } }, '"write*"'],
  ])('withholds the tools of the source: %s', async (_what, written, words) => {
    const { server, settings } = await start(written)
    expect(await toolsOf(server)).toEqual([])
    // The banner, the list of sources and the log state the reason.
    expect(server.warnings.join()).toContain(words)
    const source = await sourceOf(server, settings)
    expect(source).toMatchObject({ state: 'degraded', tools: 0, offered: 3 })
    expect([source.reason, source.warnings.join()]).toEqual([
      expect.stringMatching(
        /^Not served: the (approval|scope) rule for "\S+" matches no tool of this source\./,
      ),
      expect.stringContaining(words),
    ])
  })

  it.each([
    [
      'include',
      { include: ['read*', 'wirte*'] },
      ['Fs.read_file'],
      '`include` names "wirte*", which matches no tool of this source. Did you mean "write*"?',
    ],
    ['include that matches nothing', { include: ['*-fiel'] }, [], 'Did you mean "*-file"?'],
    [
      'exclude by pattern',
      { exclude: ['*delte*', '*write*'] },
      ['Fs.read_file', 'Fs.delete_file'],
      'Did you mean "*delet*"?',
    ],
    [
      'exclude',
      { exclude: ['delte-file'] },
      ['Fs.write_file', 'Fs.read_file', 'Fs.delete_file'],
      'Did you mean "delete-file"?',
    ],
    [
      'a policy that guards nothing',
      { tools: { 'raed-file': { timeoutMs: 5 } } },
      ['Fs.write_file', 'Fs.read_file', 'Fs.delete_file'],
      'Did you mean "read-file"?',
    ],
  ])('is reported, and the other tools are served: %s', async (_what, written, served, words) => {
    const { server, settings } = await start(written)
    expect((await toolsOf(server)).toSorted()).toEqual(served.toSorted())
    expect(server.warnings.join()).toContain(words)
    expect(await sourceOf(server, settings)).toMatchObject({
      state: 'degraded',
      warnings: [expect.stringContaining(words)],
    })
  })

  it('causes no warning where it matches, or about an excluded tool', async () => {
    const { server, settings } = await start({
      tools: { 'write-file': { approval: 'always' }, 'delete-file': { approval: 'always' } },
      exclude: ['delete*'],
    })
    expect((await toolsOf(server)).toSorted()).toEqual(['Fs.read_file', 'Fs.write_file'])
    expect([server.warnings, await sourceOf(server, settings)]).toMatchObject([
      [],
      { state: 'ready', warnings: [] },
    ])
  })

  it('blocks them for terms and predicates under approvals too', async () => {
    const approvals = (name: string, when?: () => boolean) => ({
      ...DEFAULT_APPROVAL_RULES,
      perTool: new Map([[name, { quorum: 2 }]]),
      whenPerTool: new Map(when === undefined ? [] : [[name, when]]),
    })
    const wrong = await start({}, { approvals: approvals('Fs.wirte_file') })
    expect(await toolsOf(wrong.server)).toEqual([])
    expect(wrong.server.warnings.join()).toContain('Did you mean "Fs.write_file"?')
    const idle = await start({}, { approvals: approvals('Fs.write_file', () => true) })
    expect(await toolsOf(idle.server)).toEqual([])
    expect(idle.server.warnings.join()).toContain('the predicate is never evaluated')
    const tools = { 'write-file': { approval: 'conditional' } }
    const right = await start({ tools }, { approvals: approvals('Fs.write_file', () => true) })
    expect(await toolsOf(right.server)).toHaveLength(3)
  })

  it('cannot be judged by the doctor where nothing is pinned', async () => {
    const { server, settings } = await start({ include: ['reed*'] })
    await server.close()
    expect(await examine(settings, { include: ['reed*'] })).toMatchObject([
      {
        level: 'warn',
        message: 'Fs: none of its tools are known yet, so `include` cannot be checked.',
      },
    ])
    expect(await examine(settings, {})).toEqual([])
  })

  it('is found by the doctor in a stored source too, which then has no ✓', async () => {
    const { server, settings } = await start({})
    await server.close()
    const { dataFolder, masterKey } = settings
    const url = `sqlite:${join(dataFolder, 'collet.db')}`
    const store = await REAL_SERVICES.openStore({ url, dataFolder, masterKey })
    const options = {
      ...{ type: 'command', isolation: 'none', commands: COMMANDS },
      tools: { 'wirte-file': { approval: 'always' } },
    }
    await store.sources.put({ key: 'Fs', options, replace: true, addedBy: 'tester', addedMs: 0 })
    await store.close()
    const checks = await diagnose(settings, {})
    expect(checks).toMatchObject([
      {
        level: 'fail',
        message:
          'Fs: The approval rule for "wirte-file" matches no tool of this source. Did you mean "write-file"?',
      },
    ])
  })

  it('is found by the doctor from the pins', async () => {
    const { server, settings } = await start({})
    await server.close()
    expect(await examine(settings, { tools: { 'wirte-file': { approval: 'always' } } })).toMatchObject([
      { level: 'fail', message: expect.stringContaining('Did you mean "write-file"?') },
    ])
    expect(await examine(settings, { include: ['reed*'] })).toMatchObject([{ level: 'warn' }])
    expect(await examine(settings, { tools: { 'write-file': { approval: 'always' } } })).toEqual([])
  })
})
