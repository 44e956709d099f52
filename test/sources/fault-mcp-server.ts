/**
 * An MCP server on stdio (2025-11-25) with the given faults, which no real server shows on demand.
 * `node fault-mcp-server.ts <faults,…>`
 */
import { spawn } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

interface Message {
  readonly id?: string | number
  readonly method?: string
  readonly params?: {
    readonly name?: string
    readonly arguments?: Record<string, unknown>
    readonly cursor?: string
    readonly requestId?: unknown
    readonly _meta?: { readonly progressToken?: string | number }
  }
  readonly result?: unknown
}

const faults = new Set((process.argv[2] ?? '').split(','))
const startsLog = process.argv[3]
if (startsLog !== undefined) appendFileSync(startsLog, `${process.pid}\n`)
if (faults.has('stubborn')) {
  process.on('SIGTERM', () => undefined)
  setInterval(() => undefined, 1000)
}

let count = 0
let cancelled = 0
let nextId = 0
const waiting = new Map<string | number, (result: unknown) => void>()
const tools = 'count huge die wait pid fork ask change cancelled env meta steps visit say tell flood'.split(
  ' ',
)

function say(message: object): void {
  if (faults.has('garbage')) process.stdout.write('Server listening!\n{"level":30}\n[1,2]\nnull\n\n')
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
}

function text(value: unknown): object {
  return { content: [{ type: 'text', text: JSON.stringify(value) ?? '' }] }
}

function describeTool(name: string): object {
  const more = name === 'tell' ? { outputSchema: { type: 'object' } } : {}
  return { name, description: `Does ${name}.`, inputSchema: { type: 'object' }, ...more }
}

function list(cursor: string | undefined): object {
  if (faults.has('circle')) return { tools: tools.map(describeTool), nextCursor: 'again' }
  if (faults.has('endless'))
    return { tools: Array.from({ length: 500 }, () => describeTool(`t${count++}`)), nextCursor: `c${count}` }
  if (!faults.has('pages')) return { tools: tools.map(describeTool) }
  const from = Number(cursor ?? 0)
  const page = tools.slice(from, from + 5).map(describeTool)
  return { tools: page, ...(from + 5 < tools.length ? { nextCursor: String(from + 5) } : {}) }
}

function ask(message: string): Promise<unknown> {
  nextId += 1
  const id = `q${nextId}`
  const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
  say({ id, method: 'elicitation/create', params: { message, requestedSchema } })
  return new Promise((resolve) => waiting.set(id, resolve))
}

/** As fast as it is read. */
async function flood(progressToken: unknown, notices: number): Promise<object> {
  for (let sent = 0; sent < notices; ) {
    let lines = ''
    for (let line = 0; line < 1000; line += 1) {
      sent += 1
      const params = { progressToken, progress: sent }
      lines += `${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params })}\n`
    }
    if (!process.stdout.write(lines)) await new Promise((resolve) => process.stdout.once('drain', resolve))
  }
  return text('flooded')
}

async function run(name: string, { params }: Message): Promise<object> {
  const input = params?.arguments ?? {}
  if (name === 'count') {
    count += 1
    return text(count)
  }
  if (name === 'huge') return text('x'.repeat(Number(input.bytes)))
  if (name === 'die') process.exit(7)
  if (name === 'wait') return await new Promise(() => undefined)
  if (name === 'say' || name === 'tell') return Object(input.result)
  if (name === 'pid') return text(process.pid)
  if (name === 'fork') {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
    return text([process.pid, child.pid])
  }
  if (name === 'ask') return text(await ask(String(input.question)))
  if (name === 'change') {
    tools.push('added')
    say({ method: 'notifications/tools/list_changed' })
    return text('changed')
  }
  if (name === 'cancelled') return text(cancelled)
  if (name === 'visit') {
    count += 1
    if (count > 1) return text('visited')
    const elicitation = {
      mode: 'url',
      elicitationId: 'e1',
      url: 'https://up.example/sign-in',
      message: 'Sign in',
    }
    setTimeout(
      () => say({ method: 'notifications/elicitation/complete', params: { elicitationId: 'e1' } }),
      50,
    )
    throw { code: -32_042, message: 'URL needed', data: { elicitations: [elicitation] } }
  }
  if (name === 'env') return text(process.env)
  if (name === 'meta') return text(params?._meta)
  const progressToken = params?._meta?.progressToken
  if (name === 'flood') return await flood(progressToken, Number(input.notices))
  for (const progress of [1, 2])
    say({ method: 'notifications/progress', params: { progressToken, progress, total: 2 } })
  return text('stepped')
}

async function answer(message: Message): Promise<void> {
  const { id, method, params } = message
  if (method === undefined) {
    if (id !== undefined) waiting.get(id)?.(message.result)
    return
  }
  if (method === 'notifications/cancelled') cancelled += 1
  if (id === undefined) return
  if (method === 'initialize') {
    if (faults.has('late')) await new Promise((resolve) => setTimeout(resolve, 60_000))
    const serverInfo = { name: 'fault', version: '1' }
    say({
      id,
      result: {
        protocolVersion: faults.has('ancient') ? '2024-11-05' : '2025-11-25',
        capabilities: { tools: { listChanged: true } },
        serverInfo,
      },
    })
  } else if (method === 'tools/list') {
    say({ id, result: list(params?.cursor) })
    if (faults.has('crashes')) process.exit(3)
  } else if (method === 'tools/call')
    await run(params?.name ?? '', message).then(
      (result) => say({ id, result }),
      (error: unknown) => say({ id, error }),
    )
  else if (method === 'ping') say({ id, result: {} })
  else if (method === 'server/discover' && faults.has('quits')) {
    process.stderr.write('I do not know server/discover\n')
    process.exit(1)
  } else if (method === 'server/discover' && faults.has('deaf')) return
  else say({ id, error: { code: -32_601, message: 'Method not found' } })
}

if (!faults.has('silent'))
  createInterface({ input: process.stdin })
    .on('line', (line) => void answer(JSON.parse(line)))
    .on('close', () => {
      if (!faults.has('stubborn')) process.exit(0)
    })
else setInterval(() => undefined, 1000)
