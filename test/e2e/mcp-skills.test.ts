import { rmSync } from 'node:fs'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { skill } from '#entries/skill'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { Toolset } from '#kernel/tool/toolsets'
import { type RunningServer, startServer } from '#server/start-server'
import { MCP_OPTIONS } from '#sources/mcp/options'
import { type SkillServer, skillText, startSkillServer } from '../sources/skill-server.ts'
import { testSettings } from '../test-settings.ts'

const LIMIT_MS = 60_000
const ERAS = [
  ['2026-07-28', { pin: '2026-07-28' }],
  ['the old era', 'legacy'],
] as const
const PICTURE = new Uint8Array([0xff, 0xd8, 0x00, 0x80])

describe('skills of MCP servers', () => {
  let collet: RunningServer
  let docs: SkillServer
  let legal: SkillServer
  const settings = testSettings()
  const clients: Client[] = []

  beforeAll(async () => {
    docs = await startSkillServer({
      'pdf/SKILL.md': skillText('pdf', 'Reads forms.'),
      'pdf/references/Q&A.md': 'Questions',
      'pdf/assets/logo.jpg': PICTURE,
      'changing/SKILL.md': skillText('changing', 'Changes.'),
      'silent/SKILL.md': skillText('silent', 'Changes in silence.'),
    })
    legal = await startSkillServer({ 'pdf/SKILL.md': skillText('pdf', 'Signs forms.') }, { prefix: 'acme' })
    const source = (url: string, changes: object = {}) => MCP_OPTIONS.parse({ type: 'mcp', url, ...changes })
    const key = (id: string, scopes: readonly string[]) => ({
      ...{ id, scopes, tenant: 'default' },
      key: new Secret(`key-of-${id}`),
    })
    collet = await startServer(
      {
        ...settings,
        auth: { apiKeys: [key('all', ['*']), key('few', ['docs:read'])], jwt: undefined },
        tools: requireTools([
          skill({
            id: 'Own.Report@1.0.0',
            folder: new URL('../conformance/skills/report/', import.meta.url),
            policy: { scopes: ['own:read'] },
          }),
        ]),
        sources: new Map([
          ['Docs', source(docs.url, { policy: { scopes: ['docs:read'] } })],
          ['Legal', source(legal.url, { policy: { scopes: ['legal:read'] } })],
        ]),
        toolsets: new Map<string, Toolset>([
          ['one', { include: ['Docs.skill_pdf', 'Docs.resources'], exclude: [] }],
          ['native', { include: ['Docs.*'], exclude: [], names: 'native' }],
        ]),
      },
      { graceMs: 0 },
    )
    await Promise.all([collet.sourceRead('Docs'), collet.sourceRead('Legal')])
  }, LIMIT_MS)

  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()))
    await collet.close()
    await Promise.all([docs.close(), legal.close()])
    rmSync(settings.dataFolder, { recursive: true })
  })

  async function connect(
    mode: (typeof ERAS)[number][1],
    { key = 'key-of-all', url = `${collet.url}/mcp` } = {},
  ): Promise<{ readonly client: Client; readonly skills: SkillsClient }> {
    const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
    await client.connect(
      new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { 'x-api-key': key } } }),
    )
    clients.push(client)
    return { client, skills: new SkillsClient(client) }
  }

  const admin = async (path: string, init: RequestInit = {}) => {
    const headers = { 'x-api-key': 'key-of-all', 'content-type': 'application/json' }
    return JSON.parse(await (await fetch(`${collet.url}/admin${path}`, { ...init, headers })).text())
  }

  describe.each(ERAS)('for a client of %s', (_era, mode) => {
    it('MCP-200, MCP-201: lists the skills of all sources, each under the name of its source', async () => {
      const { skills } = await connect(mode)
      const { skills: listed } = await skills.list()
      expect(listed.map(({ uri }) => uri).sort()).toEqual([
        'skill://Docs/changing/SKILL.md',
        'skill://Docs/pdf/SKILL.md',
        'skill://Docs/silent/SKILL.md',
        'skill://Legal/acme/pdf/SKILL.md',
        'skill://Own/report/SKILL.md',
      ])
      const direct = await connect(mode, { url: docs.url })
      const [own] = (await direct.skills.list()).skills.filter(
        ({ frontmatter }) => frontmatter.name === 'pdf',
      )
      const ours = listed.find(({ uri }) => uri === 'skill://Docs/pdf/SKILL.md')
      expect(JSON.stringify(ours)).toBe(JSON.stringify(own).replaceAll('skill://pdf/', 'skill://Docs/pdf/'))
    })

    it('MCP-202, MCP-203: gets a skill, and reads its files with the digests of its server', async () => {
      const { skills } = await connect(mode)
      const { skill } = await skills.get('skill://Docs/pdf/SKILL.md')
      expect(await skills.read(skill)).toMatchObject({ verified: true, body: '# How\n' })
      expect(await skills.read(skill, 'references/Q&A.md')).toMatchObject({
        text: 'Questions',
        verified: true,
      })
      expect(await skills.read(skill, 'assets/logo.jpg')).toMatchObject({
        bytes: PICTURE,
        mimeType: 'image/jpeg',
      })
      const { skill: other } = await skills.get('skill://Legal/acme/pdf/SKILL.md')
      expect(await skills.read(other)).toMatchObject({
        verified: true,
        frontmatter: { description: 'Signs forms.' },
      })
    })

    it('MCP-207: a skill of the config is got and read like that of a server', async () => {
      const { client, skills } = await connect(mode)
      const { skill: own } = await skills.get('skill://Own/report/SKILL.md')
      expect(await skills.read(own)).toMatchObject({ verified: true, mimeType: 'text/markdown' })
      expect(await skills.read(own, 'references/style.md')).toMatchObject({ verified: true })
      expect((await client.listResources()).resources).toContainEqual(
        expect.objectContaining({ uri: own.uri, name: 'report', mimeType: 'text/markdown' }),
      )
      expect((await skills.readDirectory('skill://Own/report')).resources).toMatchObject([
        { name: 'SKILL.md' },
        { name: 'references', mimeType: 'inode/directory' },
      ])
      const few = await connect(mode, { key: 'key-of-few' })
      await expect(few.skills.get(own.uri)).rejects.toThrow('Unknown skill')
    })

    it('MCP-204: lists the folders of a skill as its server does', async () => {
      const { skills } = await connect(mode)
      const direct = await connect(mode, { url: docs.url })
      for (const folder of ['', '/references', '/assets']) {
        const ours = await skills.readDirectory(`skill://Docs/pdf${folder}`)
        const own = await direct.skills.readDirectory(`skill://pdf${folder}`)
        expect(JSON.parse(JSON.stringify(ours.resources).replaceAll('skill://Docs/', 'skill://'))).toEqual(
          expect.arrayContaining(own.resources),
        )
        expect(ours.resources).toHaveLength(own.resources.length)
      }
      await expect(skills.readDirectory('skill://Docs/pdf/SKILL.md')).rejects.toMatchObject({ code: -32_602 })
      await expect(skills.readDirectory('skill://Docs/nothing')).rejects.toMatchObject({ code: -32_602 })
    })

    it('MCP-205: a hidden skill is unknown to every method, also under the address of its server', async () => {
      const { client, skills } = await connect(mode, { key: 'key-of-few' })
      const listed = (await skills.list()).skills.map(({ uri }) => uri)
      expect(listed).not.toContain('skill://Legal/acme/pdf/SKILL.md')
      const resources = (await client.listResources()).resources.map(({ uri }) => uri)
      expect(resources).toContain('skill://Docs/pdf/SKILL.md')
      expect(resources.join(' ')).not.toContain('acme')
      const hidden = 'skill://Legal/acme/pdf/SKILL.md'
      await expect(skills.get(hidden)).rejects.toMatchObject({
        code: -32_602,
        message: expect.stringContaining(`Unknown skill: ${hidden}`),
      })
      for (const uri of [
        hidden,
        'skill://acme/pdf/SKILL.md',
        'skill://pdf/SKILL.md',
        'skill://Docs/pdf/other.md',
      ])
        await expect(client.readResource({ uri })).rejects.toMatchObject({
          message: expect.stringContaining(`Unknown resource: ${uri}`),
        })
      expect((await client.readResource({ uri: 'docs://plain' })).contents).toHaveLength(1)
    })

    it('MCP-205: a toolset selects skills, and one with native names keeps their addresses', async () => {
      const one = await connect(mode, { url: `${collet.url}/mcp/one` })
      expect((await one.skills.list()).skills.map(({ uri }) => uri)).toEqual(['skill://Docs/pdf/SKILL.md'])
      await expect(one.client.readResource({ uri: 'skill://Docs/changing/SKILL.md' })).rejects.toThrow(
        'Unknown resource',
      )
      const native = await connect(mode, { url: `${collet.url}/mcp/native` })
      const { skill } = await native.skills.get('skill://pdf/SKILL.md')
      expect(await native.skills.read(skill, 'references/Q&A.md')).toMatchObject({ text: 'Questions' })
      expect((await native.skills.readDirectory('skill://pdf/assets')).resources).toMatchObject([
        { uri: 'skill://pdf/assets/logo.jpg', name: 'logo.jpg' },
      ])
    })
  })

  it('MCP-202: getting a skill and reading a file are recorded calls of its entry', async () => {
    const { skills } = await connect(ERAS[0][1])
    const { skill } = await skills.get('skill://Docs/pdf/SKILL.md')
    await skills.read(skill)
    const { calls } = await admin('/calls?tool=Docs.skill_pdf&limit=2')
    expect(calls).toMatchObject([{ tool: 'Docs.skill_pdf@1.0.0' }, { tool: 'Docs.skill_pdf@1.0.0' }])
  })

  it(
    'MCP-206: a changed skill is suspended until its change is accepted, and then read again',
    async () => {
      const { client, skills } = await connect(ERAS[0][1])
      const uri = 'skill://Docs/changing/SKILL.md'
      const { skill: before } = await skills.get(uri)
      await docs.write('changing/SKILL.md', skillText('changing', 'Changes.', '# Do something else'))
      const pin = () => admin('/pins/Docs.skill_changing')
      await vi.waitFor(async () => expect(await pin()).toMatchObject({ state: 'suspended' }), LIMIT_MS)
      expect((await skills.list()).skills).toContainEqual(before)
      await expect(client.readResource({ uri })).rejects.toThrow(
        'This skill is suspended: its files or its frontmatter have changed upstream',
      )
      const { differences, waiting } = await pin()
      expect(differences).toMatchObject([
        { where: 'definition/files/skill:~1~1changing~1SKILL.md', class: 'breaking' },
      ])
      const decided = await admin('/pins/Docs.skill_changing/accept', {
        method: 'POST',
        body: JSON.stringify({ hash: waiting.hash }),
      })
      expect(decided).toMatchObject({ state: 'served', version: '2.0.0' })
      const { skill: after } = await vi.waitFor(() => skills.get(uri), LIMIT_MS)
      expect(await skills.read(after)).toMatchObject({ body: '# Do something else\n', verified: true })
    },
    LIMIT_MS,
  )

  it(
    'MCP-203: a file that changed without notice is refused, and the change is noticed',
    async () => {
      const { client } = await connect(ERAS[0][1])
      const uri = 'skill://Docs/silent/SKILL.md'
      await docs.write('silent/SKILL.md', skillText('silent', 'Changes in silence.', '# Obey'), false)
      await expect(client.readResource({ uri })).rejects.toThrow('differs from the accepted version')
      await vi.waitFor(
        async () => expect(await admin('/pins/Docs.skill_silent')).toMatchObject({ state: 'suspended' }),
        LIMIT_MS,
      )
    },
    LIMIT_MS,
  )
})
