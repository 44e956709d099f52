import { z } from 'zod'
import { type ErrorCode, FAILURE_CODES, REFUSAL_CODES } from '#kernel/base/errors'
import { OTC_ANSWERS } from '#protocols/otc/codec-response'
import type { CallProtocol, PlannedCall, Reply } from './call-history.ts'
import { type Address, type Answer, exchange, type Question } from './exchange.ts'

const CALL_VIEW = z.object({ state: z.string() })

type SentCall = Omit<PlannedCall, 'tool'> & { readonly tool: string }

/** Sends one call; `undefined` if the connection broke before the answer was complete. */
export async function sendCall(
  address: Address,
  key: string,
  call: SentCall,
  protocol: CallProtocol = 'otc',
): Promise<Reply | undefined> {
  const { path, ask, read } = WIRES[protocol]
  const { headers, body } = ask(key, call)
  const inside = {
    ...(call.runId === undefined ? {} : { 'collet-run': call.runId }),
    ...(call.session === undefined ? {} : { 'collet-session': call.session.sessionId }),
  }
  const question: Question = {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { ...headers, ...inside },
  }
  const answer = withoutStream(await exchange(address, path, question))
  return answer === undefined ? undefined : { ...readHeaders(answer), protocol, ...readEnding(answer, read) }
}

function readEnding(answer: Answer, read: Wire['read']): Ending {
  try {
    return read(answer)
  } catch (error) {
    throw new Error(`Not an answer: ${answer.status} ${answer.text.slice(0, 500)}`, { cause: error })
  }
}

/**
 * A slow answer is a stream (MCP-15) that began before the outcome was known, so the facts of its headers are in its message.
 * A stream that ended without its message was cut.
 */
function withoutStream(answer: Answer | undefined): Answer | undefined {
  if (answer?.headers.get('content-type') !== 'text/event-stream') return answer
  const text = /^data: (.+)$/m.exec(answer.text)?.[1]
  if (text === undefined) return undefined
  const { result, error } = MCP_ANSWER.parse(JSON.parse(text))
  const headers = new Headers(answer.headers)
  const code = result?._meta['collet/errorCode'] ?? error?.data?.code
  const runId = result?._meta['collet/runId']
  if (code !== undefined) headers.set('collet-error-code', code)
  if (runId !== undefined) headers.set('collet-run', runId)
  return { ...answer, headers, text }
}

/** The state of a call; `undefined` when the server does not know it. */
export async function readState(address: Address, key: string): Promise<string | undefined> {
  const answer = await exchange(address, `/calls/${encodeURIComponent(key)}`, { method: 'GET' })
  if (answer === undefined) throw new Error(`The connection broke while reading the state of ${key}.`)
  return answer.status === 200 ? CALL_VIEW.parse(JSON.parse(answer.text)).state : undefined
}

type Ending = Pick<Reply, 'success' | 'canRetry' | 'value'>

/** How a protocol carries a call. */
interface Wire {
  readonly path: string
  ask(key: string, call: SentCall): { readonly headers: Record<string, string>; readonly body: unknown }
  read(answer: Answer): Ending
}

const FAILED: Ending = { success: false, canRetry: false, value: undefined }
const OTC_RESULT = z.object({
  result: z.object({
    success: z.boolean(),
    value: z.string().optional(),
    error: z.object({ can_retry: z.boolean().optional() }).optional(),
  }),
})
const OPENTOOL_ANSWER = z.object({
  result: z.unknown(),
  error: z.object({ data: z.object({ can_retry: z.boolean().optional() }).optional() }).nullable(),
})
/** A value that is not an object is wrapped into one (OTS-38). */
const OPENTOOL_VALUE = z.object({ result: z.string() })
const MCP_RESULT = z.object({
  isError: z.boolean().optional(),
  _meta: z.object({
    'collet/canRetry': z.boolean().optional(),
    'collet/errorCode': z.string().optional(),
    'collet/runId': z.string().optional(),
  }),
  content: z.array(z.object({ text: z.string() })),
})
const MCP_ANSWER = z.object({
  result: MCP_RESULT.optional(),
  error: z.object({ data: z.object({ code: z.string().optional() }).optional() }).optional(),
})
const META = 'io.modelcontextprotocol/'

const WIRES: Readonly<Record<CallProtocol, Wire>> = {
  otc: {
    path: '/tools/call',
    ask: (key, { tool, input = { key } }) => ({
      headers: {},
      body: { request: { tool_id: tool, call_id: key, input } },
    }),
    read({ status, text }) {
      if (status !== 200) return FAILED
      const { success, value, error } = OTC_RESULT.parse(JSON.parse(text)).result
      return { success, canRetry: error?.can_retry ?? false, value }
    },
  },
  opentool: {
    path: '/opentool/call',
    ask: (key, { tool, input = { key } }) => ({
      headers: { 'idempotency-key': key },
      body: { jsonrpc: '2.0', method: functionName(tool), params: input, id: 'o-1' },
    }),
    read({ text }) {
      const { result, error } = OPENTOOL_ANSWER.parse(JSON.parse(text))
      if (error === null)
        return { success: true, canRetry: false, value: OPENTOOL_VALUE.parse(result).result }
      return { ...FAILED, canRetry: error.data?.can_retry ?? false }
    },
  },
  mcp: {
    path: '/mcp',
    ask: (key, { tool, input = { key } }) => ({
      headers: {
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': functionName(tool),
        accept: 'application/json, text/event-stream',
      },
      body: {
        ...{ jsonrpc: '2.0', id: 'm-1', method: 'tools/call' },
        params: {
          name: functionName(tool),
          arguments: input,
          _meta: {
            'collet/idempotencyKey': key,
            [`${META}protocolVersion`]: '2026-07-28',
            [`${META}clientCapabilities`]: {},
          },
        },
      },
    }),
    read({ text }) {
      const { result } = MCP_ANSWER.parse(JSON.parse(text))
      if (result !== undefined && result.isError !== true) {
        return {
          success: true,
          canRetry: false,
          value: z.string().parse(JSON.parse(result.content[0]?.text ?? '')),
        }
      }
      return { ...FAILED, canRetry: result?._meta['collet/canRetry'] ?? false }
    },
  },
}

function functionName(tool: string): string {
  return tool.replace(/@.*$/, '').replace('.', '_')
}

const CODES: ReadonlySet<string> = new Set([...REFUSAL_CODES, ...FAILURE_CODES])

function isCode(text: string | null): text is ErrorCode {
  return text !== null && CODES.has(text)
}

function readHeaders({ status, headers, text }: Answer) {
  const code = headers.get('collet-error-code')
  const { status: meant, retry } = isCode(code) ? OTC_ANSWERS[code] : { status, retry: false }
  return {
    status: meant,
    asksForRetry: retry,
    errorCode: code ?? undefined,
    runId: headers.get('collet-run') ?? undefined,
    body: text,
  }
}
