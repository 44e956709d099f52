import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { REAL_SERVICES } from '#cli/io'
import { Secret } from '#kernel/base/secret'
import { type RunningServer, startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { testSettings } from '../test-settings.ts'
import { FakeIo } from './fake-io.ts'

const KEY = 'a-key-of-32-random-bytes-or-more'
const crm = (version: string) => sampleTool(`Crm.Find@${version}`, () => 'found')
const settings = testSettings({
  tools: [crm('1.0.0'), crm('2.1.0'), sampleTool('Mail.Send@1.0.0', () => 'sent')],
  toolsets: new Map([['mail', { include: ['Mail.*'], exclude: [] }]]),
})
const empty = testSettings({ tools: [] })
let server: RunningServer
let none: RunningServer
let folder: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-types-cli-'))
  server = await startServer(settings, { graceMs: 0 })
  none = await startServer(empty, { graceMs: 0 })
})

afterAll(async () => {
  await Promise.all([server.close(), none.close()])
  for (const each of [settings.dataFolder, empty.dataFolder, folder]) rmSync(each, { recursive: true })
})

async function types(...words: readonly string[]) {
  const io = new FakeIo(REAL_SERVICES, { workingFolder: folder })
  const code = await io.run('types', ...words)
  return { code, stdout: io.stdout, stderr: io.stderr }
}

/** The names of the entries. */
function entriesIn(text: string): readonly string[] {
  return [...text.matchAll(/^ {2}"?([^"\n]+?)"?: \{$/gm)].map(([, name = '']) => name)
}

describe('collet types', () => {
  it('prints one entry for each tool, with every name that the client accepts', async () => {
    const { code, stdout, stderr } = await types(server.url)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(entriesIn(stdout)).toEqual(['Crm.Find', 'Crm.Find@1.0.0', 'Mail.Send'])
    const names = [...stdout.matchAll(/names: (.*);/g)].map(([, list = '']) =>
      list.replaceAll('"', '').split(' | '),
    )
    expect(names).toEqual([
      ['Crm_Find', 'openwop:Crm.Find', 'Crm.Find@2.1.0', 'Crm_Find@2.1.0', 'openwop:Crm.Find@2.1.0'],
      [
        ...['Crm.Find@1', 'Crm_Find@1.0.0', 'Crm_Find@1'],
        ...['openwop:Crm.Find@1.0.0', 'openwop:Crm.Find@1'],
      ],
      [
        ...['Mail_Send', 'openwop:Mail.Send', 'Mail.Send@1.0.0', 'Mail.Send@1'],
        ...['Mail_Send@1.0.0', 'Mail_Send@1', 'openwop:Mail.Send@1.0.0', 'openwop:Mail.Send@1'],
      ],
    ])
    const client = await REAL_SERVICES.connect(server.url, {})
    for (const [index, id] of ['Crm.Find@2.1.0', 'Crm.Find@1.0.0', 'Mail.Send@1.0.0'].entries())
      for (const name of names[index] ?? []) expect((await client.get(name))?.id, name).toBe(id)
  })

  it('chooses tools by toolset, by pattern and by search', async () => {
    expect(entriesIn((await types(server.url, '--toolset', 'mail')).stdout)).toEqual(['Mail.Send'])
    expect(entriesIn((await types('--url', server.url, '--include', 'Crm_*@1')).stdout)).toEqual([
      'Crm.Find@1.0.0',
    ])
    expect(entriesIn((await types(server.url, '--search', 'send mail')).stdout)).toEqual(['Mail.Send'])
  })

  it('writes a file, finds it up to date, and notices when it is not', async () => {
    const file = join(folder, 'tools.d.ts')
    expect(await types(server.url, '-o', 'tools.d.ts', '--check')).toMatchObject({ code: 1, stdout: '' })
    expect(await types(server.url, '-o', 'tools.d.ts')).toEqual({
      ...{ code: 0, stdout: '', stderr: '✓ Wrote the types of 3 tools to tools.d.ts.\n' },
    })
    expect(await types(server.url, '-o', 'tools.d.ts', '--check')).toMatchObject({ code: 0 })
    writeFileSync(file, `${readFileSync(file, 'utf8')}\n`)
    expect(await types(server.url, '-o', 'tools.d.ts', '--check')).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: '✗ tools.d.ts is not up to date. Run the command again without --check.\n',
    })
  })

  it('does not replace a file that it did not write', async () => {
    writeFileSync(join(folder, 'mine.ts'), 'export const mine = 1\n')
    const { code, stderr } = await types(server.url, '-o', 'mine.ts')
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('was not written by "collet types"'),
    })
    expect(readFileSync(join(folder, 'mine.ts'), 'utf8')).toBe('export const mine = 1\n')
  })

  it.each([
    [
      'no server',
      () => ['http://127.0.0.1:1'],
      3,
      /could not be reached[\s\S]*Address: http:\/\/127\.0\.0\.1:1 \(from --url\)\n.*Is the server running\?/,
    ],
    ['no tools', () => [none.url], 2, /lists no tools for this caller\.\n.*pass it with --key/],
    [
      'an unknown toolset',
      () => [server.url, '--toolset', 'crn'],
      3,
      /no toolset "crn"[\s\S]*collet toolsets lists/,
    ],
    [
      'a pattern without tools',
      () => [server.url, '--include', 'X.*'],
      2,
      /None of the 3 tools .* matches the options/,
    ],
    ['two servers', () => [server.url, '--url', server.url], 2, /named twice/],
    ['a check without a file', () => [server.url, '--check'], 2, /--output FILE/],
  ])('says what to do about %s', async (_title, words, code, message) => {
    const ended = await types(...words())
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toMatch(message)
  })

  it('reports that a key is needed', async () => {
    const apiKeys = [{ id: 'agent', key: new Secret(KEY), tenant: 'default', scopes: [] }]
    const keyed = testSettings({ tools: settings.tools, auth: { apiKeys, jwt: undefined } })
    const locked = await startServer(keyed, { graceMs: 0 })
    try {
      const refused = await types(locked.url)
      expect(refused).toMatchObject({ code: 3, stdout: '' })
      expect(refused.stderr).toContain('Pass an API key with --key, or set COLLET_API_KEY.')
      expect(entriesIn((await types(locked.url, '--key', KEY)).stdout)).toHaveLength(3)
    } finally {
      await locked.close()
      rmSync(keyed.dataFolder, { recursive: true })
    }
  })
})
