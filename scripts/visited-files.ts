import { mkdtempSync, rmSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { serve, tool } from '#index'

/**
 * `npm run visited` counts the source files that a reader opens to follow one call: the files in which V8 saw a
 * function run between the request and its answer. `--list` names them. Timers only add files, so the smallest of
 * several rounds counts.
 */

const ROUNDS = 5
const ROOT = join(import.meta.dirname, '..')
const KEYS = { caller: 'c'.repeat(40), approver: 'a'.repeat(40) }
const MCP_VERSION = '2026-07-28'
const MCP_META = 'io.modelcontextprotocol/'

const upstream = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/server-everything/dist/index.js',
)
const base = { description: 'Writes a number down.', input: { type: 'object' }, output: {} } as const
const write = { safetyTier: 'write', replay: 'non-deterministic' } as const
const folder = mkdtempSync(join(tmpdir(), 'collet-visited-'))
const server = await serve(
  {
    server: { port: 0 },
    auth: {
      apiKeys: [
        { id: 'caller', key: KEYS.caller },
        { id: 'approver', key: KEYS.approver, scopes: ['approvals:respond'] },
      ],
    },
    sources: { Everything: { type: 'mcp', command: process.execPath, args: [upstream, 'stdio'] } },
    log: { level: 'silent' },
    tools: [
      tool({ ...base, id: 'Note.Write@1.0.0', policy: write, run: () => 1 }),
      tool({ ...base, id: 'Note.Pay@1.0.0', policy: { ...write, approval: 'always' }, run: () => 1 }),
    ],
  },
  { folder },
)
let asked = 0

try {
  const stories = { 'OTC write call': otcWrite, 'MCP call of an imported tool': mcpImported, approval }
  const counted: [string, readonly string[]][] = []
  for (const [name, story] of Object.entries(stories)) counted.push([name, await visitedBy(story)])
  const lines = [
    '| one …  | files visited |',
    '|---|---|',
    ...counted.map(([name, files]) => `| ${name} | ${files.length} |`),
  ]
  if (process.argv.includes('--list'))
    for (const [name, files] of counted) lines.push('', name, ...files.map((file) => `  ${file}`))
  process.stdout.write(`${lines.join('\n')}\n`)
} finally {
  await server.close()
  rmSync(folder, { recursive: true, force: true })
}

async function visitedBy(story: () => Promise<void>): Promise<readonly string[]> {
  // One-time work (a connection, a compiled schema) is not part of a call.
  await story()
  let fewest: readonly string[] | undefined
  for (let round = 0; round < ROUNDS; round++) {
    const files = await countOnce(story)
    if (fewest === undefined || files.length < fewest.length) fewest = files
  }
  return fewest ?? []
}

async function countOnce(story: () => Promise<void>): Promise<readonly string[]> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await session.post('Profiler.takePreciseCoverage')
  await story()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  session.disconnect()
  const ran = result.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0))
  return ran
    .filter(({ url }) => url.startsWith('file:'))
    .map(({ url }) => relative(ROOT, fileURLToPath(url)))
    .filter((path) => path.startsWith('src/'))
    .sort()
}

async function otcWrite(): Promise<void> {
  await callOtc('Note.Write@1.0.0', `call-${asked++}`, 200)
}

async function mcpImported(): Promise<void> {
  const _meta = { [`${MCP_META}protocolVersion`]: MCP_VERSION, [`${MCP_META}clientCapabilities`]: {} }
  const params = { name: 'Everything_echo', arguments: { message: `hello ${asked++}` }, _meta }
  const answer = await post(
    '/mcp',
    { jsonrpc: '2.0', id: asked, method: 'tools/call', params },
    {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': MCP_VERSION,
      'mcp-method': 'tools/call',
      'mcp-name': 'Everything_echo',
    },
  )
  if (!answer.text.includes('"complete"')) throw new Error(`The MCP call failed: ${answer.text}`)
}

/** A call that must wait, its decision, and the repeated call. */
async function approval(): Promise<void> {
  const key = `call-${asked++}`
  const waiting = await callOtc('Note.Pay@1.0.0', key)
  const id = /\/approvals\/([\w-]+)"/.exec(waiting)?.[1]
  if (id === undefined) throw new Error(`No approval is asked for: ${waiting}`)
  const decided = await post(
    `/admin/approvals/${id}/approve`,
    {},
    { authorization: `Bearer ${KEYS.approver}` },
  )
  if (decided.status !== 200) throw new Error(`The approval failed: ${decided.text}`)
  await callOtc('Note.Pay@1.0.0', key, 200)
}

async function callOtc(toolId: string, callId: string, wanted?: number): Promise<string> {
  const request = { tool_id: toolId, call_id: callId, input: {} }
  const { status, text } = await post('/tools/call', { request })
  if (wanted !== undefined && (status !== wanted || !text.includes('"success":true')))
    throw new Error(`The call failed: ${status} ${text}`)
  return text
}

async function post(path: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${KEYS.caller}`, ...headers },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}
