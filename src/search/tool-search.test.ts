import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import type { Principal } from '#kernel/base/principal'
import { Registry } from '#kernel/tool/catalog'
import type { Tool } from '#kernel/tool/tool'
import { sampleTool } from '../../test/contracts/samples.ts'
import type { Embed } from './embedding.ts'
import { openToolSearch } from './tool-search.ts'

const CALLER: Principal = { id: 'key:x', tenant: 'default', scopes: ['*'] }

const made = (id: string, description: string, scopes: string[] = []): Tool =>
  sampleTool(id, () => null, { description, policy: { scopes } })

const OTHERS = [
  made('Code.CreatePullRequest@1.0.0', 'Create a pull request'),
  made('Code.ListPullRequests@1.0.0', 'List pull requests'),
  made('Plan.Delete@1.0.0', 'カレンダーの予定を削除します。'),
  made('Plan.Attach@1.0.0', 'カレンダーにファイルを付けます。'),
  made('Plan.Remove@1.0.0', '일정 하나를 지웁니다.'),
  made('Plan.Erase@1.0.0', 'एक फ़ाइल को हटाता है।'),
]

const TOOLS = [
  made('Mail.Send@1.0.0', 'Sends a message to people.'),
  made('Mail.ListMessages@1.0.0', 'Lists the messages of a mailbox.'),
  made('Mail.DeleteMessage@1.0.0', 'Deletes one message.'),
  made('Files.ReadFile@1.0.0', 'Reads a file from the disk.'),
  made('Files.ListDirectory@1.0.0', 'Lists the files of a folder.'),
  made('Calendar.CreateEvent@1.0.0', 'Puts an appointment into the calendar.'),
]

function searchOver(tools: readonly Tool[], more: { embed?: Embed; unavailable?: string } = {}) {
  const registry = new Registry(tools)
  const { embed, unavailable } = more
  return openToolSearch({
    ...{ clock: SYSTEM_CLOCK, log: SILENT_LOGGER, embed },
    catalogFor: (principal) => registry.catalogFor(principal),
    unavailable: async (_, found) =>
      new Map(unavailable === undefined ? [] : found.map((tool) => [tool, unavailable])),
  })
}

const namesFor = async (search: ReturnType<typeof searchOver>, text: string, caller = CALLER) =>
  (await search.find(caller, text)).found.map(({ tool }) => tool.parts.base)

describe('the search over tools', () => {
  const search = searchOver(TOOLS)

  it.each([
    ['send an email to somebody', 'Mail.Send'],
    ['tell the team about the release', 'Mail.Send'],
    ['tell me what is in this file', 'Files.ReadFile'],
    ['which messages are there?', 'Mail.ListMessages'],
    ['erase a message', 'Mail.DeleteMessage'],
    ['show the files of my directory', 'Files.ListDirectory'],
    ['plan an appointment', 'Calendar.CreateEvent'],
    ['make a calender entry', 'Calendar.CreateEvent'],
  ])('for "%s" it finds the tool %s', async (text, name) => {
    expect((await namesFor(search, text))[0]).toBe(name)
  })

  it.each([
    ['pull requests', 'Code.ListPullRequests'],
    ['予定を削除する', 'Plan.Delete'],
    ['ﾌｧｲﾙ', 'Plan.Attach'],
    ['일정을 지워 줘', 'Plan.Remove'],
    ['फ़ाइल हटाएं', 'Plan.Erase'],
  ])('for "%s", of another script or with a verb that is none, it finds %s', async (text, name) => {
    expect((await namesFor(searchOver([...TOOLS, ...OTHERS]), text))[0]).toBe(name)
  })

  it('returns the groups of tools if no tool fits', async () => {
    const { found, families } = await search.find(CALLER, 'quantum flux')
    expect(found).toEqual([])
    expect(families.map(({ name, count }) => [name, count])).toEqual([
      ['Mail', 3],
      ['Files', 2],
      ['Calendar', 1],
    ])
  })

  it('finds a tool whose name has the word, even if most tools have it', async () => {
    const tools = ['List', 'Get', 'Create', 'Update'].map((verb) =>
      made(`Desk.${verb}Ticket@1.0.0`, `${verb}s tickets.`),
    )
    const among = searchOver([...tools, made('Tracker.FindIssue@1.0.0', 'Finds issues by their words.')])
    expect(await namesFor(among, 'find issues and tickets')).toHaveLength(5)
  })

  it('marks a tool that cannot be called now, and keeps its rank', async () => {
    const marked = searchOver(TOOLS, { unavailable: 'Its source is down.' })
    const { found } = await marked.find(CALLER, 'send a message')
    expect(found[0]).toMatchObject({ tool: { id: 'Mail.Send@1.0.0' }, unavailable: 'Its source is down.' })
  })

  it('rule 2: tools that are hidden from a caller do not affect its results', async () => {
    const hidden = Array.from({ length: 40 }, (_, at) =>
      made(`Secret.Message${at}@1.0.0`, 'Sends a message of the mailbox to people.', ['admin:secret']),
    )
    const caller = { ...CALLER, scopes: [] }
    const mixed = searchOver([...hidden.slice(0, 20), ...TOOLS, ...hidden.slice(20)])
    for (const text of [
      'send a message',
      'message',
      'mailbox of people',
      'Secret.Message1',
      'nothing of this',
    ]) {
      const [alone, among] = await Promise.all([search.find(caller, text), mixed.find(caller, text)])
      expect(among).toEqual(alone)
    }
  })

  it('an exact name is always first, in any spelling', async () => {
    const word = fc.constantFrom('list', 'get', 'send', 'mail', 'issue', 'file', 'x', 'Label', 'Pull', 'run')
    const local = fc.array(word, { minLength: 1, maxLength: 4 }).map((words) => words.join('_'))
    const ids = fc.uniqueArray(fc.tuple(fc.constantFrom('Git', 'Mail', 'Ops'), local), {
      minLength: 2,
      maxLength: 30,
      selector: ([toolkit, name]) => `${toolkit}.${name}`.toLowerCase().replaceAll('_', ''),
    })
    const spell = fc.constantFrom(
      (tool: Tool) => tool.id,
      (tool: Tool) => tool.parts.base,
      (tool: Tool) => tool.name,
      (tool: Tool) => tool.catalogId,
      (tool: Tool) => tool.parts.base.toUpperCase(),
      (tool: Tool) => tool.name.replaceAll('_', ' '),
    )
    await fc.assert(
      fc.asyncProperty(ids, fc.nat(), spell, async (names, pick, spelled) => {
        const tools = names.map(([toolkit, name]) =>
          made(`${toolkit}.${name}@1.0.0`, `Lists and sends mail, issues and files with ${name}.`),
        )
        const wanted = tools[pick % tools.length]
        if (wanted === undefined) return
        const [first] = await namesFor(searchOver(tools), spelled(wanted))
        expect(first).toBe(wanted.parts.base)
      }),
      { numRuns: 60 },
    )
    expect((await namesFor(search, 'send'))[0]).toBe('Mail.Send')
    expect((await namesFor(search, 'please call Mail_DeleteMessage for me'))[0]).toBe('Mail.DeleteMessage')
  })

  it('returns the same result for the same text', async () => {
    const first = await search.find(CALLER, 'list messages and files')
    for (let time = 0; time < 3; time += 1)
      expect(await searchOver(TOOLS).find(CALLER, 'list messages and files')).toEqual(first)
  })
})

describe('an embedding model', () => {
  /** One dimension for each topic. */
  const topics: Embed = async (texts) =>
    texts.map((text) => [/mail|letter/i.test(text) ? 1 : 0, /file/i.test(text) ? 1 : 0, 0.1])

  const settled = async (search: ReturnType<typeof searchOver>, text: string) => {
    await search.find(CALLER, text)
    await new Promise((done) => setImmediate(done))
    await new Promise((done) => setImmediate(done))
    return await namesFor(search, text)
  }

  it('finds tools that the index alone does not find', async () => {
    expect(await namesFor(searchOver(TOOLS), 'letter')).toEqual([])
    expect((await settled(searchOver(TOOLS, { embed: topics }), 'letter'))[0]).toMatch(/^Mail/)
  })

  it('that prefers the wrong tools does not displace the best one', async () => {
    const photos = Array.from({ length: 60 }, (_, at) => made(`Album.Photo${at}@1.0.0`, 'A picture.'))
    const wrong: Embed = async (texts) =>
      texts.map((text) => (/send a m|photo/i.test(text) ? [1, 0] : [0, 1]))
    const names = await settled(searchOver([...photos, ...TOOLS], { embed: wrong }), 'send a message')
    expect(names[0]).toBe('Mail.Send')
  })

  it('has no effect if it fails', async () => {
    const failing = searchOver(TOOLS, { embed: async () => Promise.reject(new Error('no model')) })
    expect(await settled(failing, 'send a message')).toEqual(
      await namesFor(searchOver(TOOLS), 'send a message'),
    )
  })
})
