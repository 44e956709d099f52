import { EventParser } from '#client/event-stream'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import { VERSION } from '#server/version'
import { type Look, OTHER } from './found-source.ts'
import type { Probe } from './probe.ts'

const REQUEST_ID = 'collet-import'
const INITIALIZE: JsonObject = {
  jsonrpc: '2.0',
  id: REQUEST_ID,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'collet', version: VERSION },
  },
}
const MOST_CHARACTERS = 1_000_000

/** Says hello as a client does; servers of the newest revision answer that with an error of their own. */
export async function probeMcp(url: string, { send, signal, apiKey }: Probe): Promise<Look> {
  const headers = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` }
  const response = await send(url, {
    method: 'POST',
    headers: {
      ...headers,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
    },
    body: JSON.stringify(INITIALIZE),
    redirect: 'manual',
    signal,
  })
  if (response.status === 401) {
    await response.body?.cancel()
    const isMcp = (response.headers.get('www-authenticate') ?? '').includes('resource_metadata')
    if (!isMcp) return OTHER
    const notes = ['It wants a token of its own: add `authorization: { provider, scopes }` to its options.']
    return found(url, headers, { notes })
  }
  const answer = await readAnswer(response)
  await endSession(url, response, { send, signal, apiKey })
  if (!isJsonObject(answer) || answer.jsonrpc !== '2.0' || answer.id !== REQUEST_ID) return OTHER
  const { result, error } = answer
  if (isJsonObject(result) && typeof result.protocolVersion === 'string') {
    const { serverInfo } = result
    const name = isJsonObject(serverInfo) ? (serverInfo.title ?? serverInfo.name) : undefined
    return found(url, headers, {
      revision: result.protocolVersion,
      ...(typeof name === 'string' ? { name } : {}),
      notes: [],
    })
  }
  return isJsonObject(error) && typeof error.code === 'number' ? found(url, headers, { notes: [] }) : OTHER
}

function found(
  url: string,
  headers: JsonObject,
  { revision, name, notes }: { revision?: string; name?: string; notes: readonly string[] },
): Look {
  return {
    kind: 'found',
    source: {
      type: 'mcp',
      options: { type: 'mcp', url, ...(Object.keys(headers).length === 0 ? {} : { headers }) },
      what: revision === undefined ? 'an MCP server' : `an MCP server (${revision})`,
      ...(name === undefined ? {} : { name }),
      notes,
    },
  }
}

/** The first message, alone or as an event; a stream may go on for ever. */
async function readAnswer(response: Response): Promise<JsonValue | undefined> {
  const type = response.headers.get('content-type') ?? ''
  if (!type.startsWith('text/event-stream')) return parse(await response.text())
  const parser = new EventParser(MOST_CHARACTERS)
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  try {
    for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
      for (const { data } of parser.read(decoder.decode(read.value, { stream: true }))) {
        const message = parse(data)
        if (isJsonObject(message) && message.id === REQUEST_ID) return message
      }
    }
    return undefined
  } finally {
    await reader?.cancel().catch(() => undefined)
  }
}

/** The look opened one; whoever uses the source opens its own. */
async function endSession(url: string, response: Response, { send, signal, apiKey }: Probe): Promise<void> {
  const session = response.headers.get('mcp-session-id')
  if (session === null) return
  const headers = {
    'mcp-session-id': session,
    ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
  }
  const ended = await send(url, { method: 'DELETE', headers, signal }).catch(() => undefined)
  await ended?.body?.cancel()
}

function parse(text: string): JsonValue | undefined {
  try {
    const value: JsonValue = JSON.parse(text)
    return value
  } catch {
    return undefined
  }
}
