import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { tool } from '#kernel/tool/define'
import { serve, settingsOf } from '#server/create-gateway'
import { type RunningServer, startServer } from '#server/start-server'

const folder = mkdtempSync(join(tmpdir(), 'collet-exec-'))
const ran: string[] = []
let held = Promise.withResolvers<void>()

/** A shell tool, served in-process and from an upstream. */
function shell(id: string, where: string) {
  return tool({
    id,
    description: 'Runs a command.',
    input: {
      type: 'object',
      properties: { command: { type: 'string', description: 'The command.' } },
      required: ['command'],
    },
    output: {},
    policy: { safetyTier: where === 'own' ? 'exec' : 'write' },
    run: async (input) => {
      // Rule 7: the claim is in the store when the command starts.
      ran.push(`${where} ${JSON.stringify(input)}, ${runningIn('near')} claimed`)
      await held.promise
      return { ok: true }
    },
  })
}

const NOTES = new URL('../sources/packs/notes', import.meta.url).pathname

let upstream: RunningServer
let server: RunningServer
let near: () => object

async function serveNear(name: string): Promise<RunningServer> {
  const settings = await settingsOf(near(), { folder: join(folder, name) })
  const started = await startServer(settings, { graceMs: 0 })
  await vi.waitFor(async () => expect(await descriptors(started)).toHaveLength(6), { timeout: 20_000 })
  return started
}

function runningIn(name: string): number {
  const database = new DatabaseSync(join(folder, name, '.collet', 'collet.db'), { readOnly: true })
  try {
    return Number(database.prepare("SELECT count(*) AS n FROM calls WHERE state = 'running'").get()?.n)
  } finally {
    database.close()
  }
}

beforeAll(async () => {
  const log = { level: 'silent' as const }
  const shared = { server: { port: 0 }, log }
  upstream = await serve({ ...shared, tools: [shell('Host.Run@1.0.0', 'far')] }, { folder: sub('far') })
  const { host } = new URL(upstream.url)
  writeFileSync(join(sub('near'), 'api.json'), JSON.stringify(openApi(upstream.url)))
  near = () => {
    const policy = { safetyTier: 'exec' } as const
    return {
      ...shared,
      tools: [shell('Shell.Run@1.0.0', 'own')],
      openwop: { vendor: 'acme' },
      egress: { allow: [host] },
      sources: {
        far: { type: 'otc', url: upstream.url, policy },
        words: { type: 'opentool', url: `${upstream.url}/opentool`, policy },
        fs: { type: 'mcp', url: `${upstream.url}/mcp`, tools: { Host_Run: policy }, vendor: 'other-labs' },
        api: { type: 'openapi', file: 'api.json', policy },
        kit: { type: 'pack', path: NOTES, include: ['Wait'], policy },
      },
    } as const
  }
  server = await serveNear('near')
}, 60_000)
afterAll(async () => {
  await server.close()
  await upstream.close()
  rmSync(folder, { recursive: true })
})

function sub(name: string): string {
  const path = join(folder, name)
  mkdirSync(path, { recursive: true })
  return path
}

interface Descriptor {
  readonly toolId: string
  readonly source: string
  readonly safetyTier: string
  readonly approval: string
  readonly egress: string
}

async function descriptors({ url } = server): Promise<readonly Descriptor[]> {
  return JSON.parse(await (await fetch(`${url}/v1/tools`)).text())
}

const IDS = [
  ['own code', 'x-host-acme-shell-run', 'Shell.Run'],
  ['an OTC server', 'x-host-acme-far-host-run', 'far.Host_Run'],
  ['an OpenTool server', 'x-host-acme-words-host-run', 'words.Host_Run'],
  ['an MCP server', 'x-host-other-labs-fs-host-run', 'fs.Host_Run'],
  ['an OpenAPI service', 'x-host-acme-api-run', 'api.run'],
  ['a pack', 'x-host-acme-kit-wait', 'kit.Wait'],
] as const

const COMMAND = { command: 'ls' }
const INPUTS: Readonly<Record<string, object>> = {
  'kit.Wait': {},
  'api.run': { body: { request: { tool_id: 'Host.Run', input: COMMAND } } },
}

async function post(url: string, body: object, headers: Record<string, string> = {}) {
  const reply = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  return {
    status: reply.status,
    code: reply.headers.get('collet-error-code'),
    json: Object(await reply.json()),
  }
}

/** Calls by the name of the tool, under a call id that starts with `story`. */
function call({ url }: RunningServer, story: string, name: string, tool_id: string = name) {
  const request = { tool_id, call_id: `${story} ${name}`, input: INPUTS[name] ?? COMMAND }
  return post(`${url}/tools/call`, { request })
}

const operate = (path: string, body: object) =>
  post(`${server.url}/admin/approvals/${path}`, body, {
    authorization: `Bearer ${readFileSync(server.startTokenFile, 'utf8').trim()}`,
  })

function openApi(url: string): object {
  const body = { content: { 'application/json': { schema: { type: 'object' } } } }
  const post = {
    operationId: 'run',
    requestBody: body,
    responses: { 200: { description: 'Done.', ...body } },
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Shell', version: '1' },
    servers: [{ url }],
    paths: { '/tools/call': { post } },
  }
}

describe('OWP-31: a tool of tier exec is catalogued as a host extension', () => {
  it.each(IDS)('%s is %s', async (_what, wanted) => {
    const found = (await descriptors()).find(({ toolId }) => toolId === wanted)
    expect(found).toMatchObject({
      source: 'host-extension',
      safetyTier: 'exec',
      approval: 'always',
      egress: 'host-owned',
    })
    const schema = await (await fetch(`${server.url}/v1/schemas/tool-descriptor.schema.json`)).json()
    const validate = new Ajv2020({ strict: false }).compile(Object(schema))
    expect(validate(found), JSON.stringify(validate.errors)).toBe(true)
  })

  it.each(IDS)(
    '%s waits for approval: nothing runs, and the call is not repeated',
    async (_what, toolId, name) => {
      const before = ran.length
      for (const tool_id of [toolId, name, toolId]) {
        const { status, json } = await call(server, 'exec', name, tool_id)
        expect([status, json.missing_requirements?.approval?.id]).toEqual([400, expect.any(String)])
      }
      expect(ran).toHaveLength(before)
    },
  )
})

describe('a tool of tier exec follows the rules of commands', () => {
  it.each(IDS)('rule 23: a link shows a call of %s and does not decide it', async (_what, _toolId, name) => {
    const { id } = (await call(server, 'link', name)).json.missing_requirements.approval
    const made = await operate(`${id}/link`, { approver: 'carol' })
    expect(made.json).toMatchObject({ power: 'inspect' })
    const decided = await post(`${server.url}/v1/interrupts/${made.json.token}`, {
      resumeValue: { action: 'accept' },
    })
    expect(decided.status).toBe(403)
    expect((await call(server, 'link', name)).json.missing_requirements.approval.id).toBe(id)
  })

  it.each(IDS)(
    'rules 7, 8: a call of %s is claimed before it runs, and is not run again after a crash',
    async (what, _toolId, name) => {
      const { id } = (await call(server, 'crash', name)).json.missing_requirements.approval
      expect((await operate(`${id}/approve`, {})).status).toBe(200)
      const before = ran.length
      const runs = what === 'a pack' ? 0 : 1
      const answer = call(server, 'crash', name)
      await vi.waitFor(() => expect([runningIn('near'), ran.length]).toEqual([1, before + runs]), {
        timeout: 10_000,
      })
      expect(ran.slice(before).join()).toContain(runs === 0 ? '' : '1 claimed')
      // A copy of the disk as a crash at this moment would leave it.
      const crashed = `crashed-${name}`
      cpSync(join(folder, 'near'), join(folder, crashed), { recursive: true })
      const next = await serveNear(crashed)
      try {
        for (let round = 0; round < 2; round += 1)
          expect(await call(next, 'crash', name)).toMatchObject({ code: 'ambiguous' })
        expect(ran).toHaveLength(before + runs)
      } finally {
        await next.close()
        held.resolve()
        held = Promise.withResolvers()
        if (runs === 1) await answer
        else answer.catch(() => undefined)
      }
    },
    30_000,
  )
})
