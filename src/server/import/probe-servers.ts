import { readOptions } from '#client/client-options'
import { OpenToolClient } from '#client/opentool-client'
import { ToolDirectory } from '#client/tool-directory'
import { isJsonObject, type JsonObject } from '#core/json'
import { type Look, OTHER } from './found-source.ts'
import type { Probe } from './probe.ts'
import { lookAtDocument, parseDescription } from './read-description.ts'

/** An OTC server has `GET /tools`. */
export async function probeOtc(url: string, probe: Probe): Promise<Look> {
  const base = withoutEnd(url, '/tools')
  const listing = await new ToolDirectory(clientSettings(base, 'otc', probe)).refresh(probe.signal)
  // Any list of anything is one to a liberal reader.
  if (listing.tools.length === 0 && listing.wire.dialect === 'uts') return OTHER
  return {
    kind: 'found',
    source: {
      type: 'otc',
      options: { type: 'otc', url: base, ...keyOption(probe) },
      what: `an OTC server (${listing.wire.dialect})`,
      notes: [],
    },
  }
}

/** An OpenTool server tells its version, and mostly its functions. */
export async function probeOpenTool(url: string, probe: Probe): Promise<Look> {
  const base = withoutEnd(withoutEnd(url, '/load'), '/version')
  const client = new OpenToolClient(clientSettings(base, 'opentool', probe))
  const { version } = await client.version({ signal: probe.signal })
  const document = await client.load({ signal: probe.signal })
  if (document === null) {
    return { kind: 'unusable', why: `${base} is an OpenTool server that does not describe its functions.` }
  }
  return {
    kind: 'found',
    source: {
      type: 'opentool',
      options: { type: 'opentool', url: base, ...keyOption(probe) },
      what: `an OpenTool server (version ${version})`,
      name: document.info.title,
      notes: [],
    },
  }
}

/** openwop lists tools and tells of runs, but has no operation by which somebody else calls a tool. */
export async function probeOpenwop(url: string, probe: Probe): Promise<Look> {
  const document = await getDocument(new URL('/.well-known/openwop', url).href, probe)
  if (document === undefined || !Array.isArray(document.supportedEnvelopes)) return OTHER
  const { implementation } = document
  const name = isJsonObject(implementation) ? implementation.name : undefined
  const who = typeof name === 'string' ? `an openwop host (${name})` : 'an openwop host'
  return {
    kind: 'unusable',
    why: `${url} is ${who}. openwop lists tools but has no operation to call them from outside: import its MCP, OTC, OpenTool or OpenAPI address.`,
  }
}

/** The document at an address, read as what it says it is. */
export async function probeDocument(url: string, probe: Probe): Promise<Look> {
  const document = await getDocument(url, probe)
  if (document === undefined) return OTHER
  const headers = probe.apiKey === undefined ? {} : { Authorization: `Bearer ${probe.apiKey}` }
  return lookAtDocument(document, { url }, headers)
}

const USUAL_PLACES = ['/openapi.json', '/openapi.yaml', '/swagger.json', '/v3/api-docs', '/api-docs']

/** Services put their description into one of a few places. */
export async function probeUsualPlaces(url: string, probe: Probe): Promise<Look> {
  for (const place of USUAL_PLACES) {
    const look = await probeDocument(`${url.replace(/\/+$/, '')}${place}`, probe).catch(() => OTHER)
    if (look.kind !== 'other') return look
  }
  return OTHER
}

async function getDocument(url: string, { send, signal, apiKey }: Probe): Promise<JsonObject | undefined> {
  const response = await send(url, {
    headers: {
      accept: 'application/json, application/yaml;q=0.9, */*;q=0.1',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    },
    signal,
  })
  const type = response.headers.get('content-type') ?? ''
  // A stream has no end to wait for.
  if (!response.ok || type.startsWith('text/event-stream')) {
    await response.body?.cancel()
    return undefined
  }
  return parseDescription(await response.text())
}

function clientSettings(url: string, protocol: 'otc' | 'opentool', { send, apiKey }: Probe) {
  return readOptions(url, { apiKey, protocol, maxRetries: 0, fetch: (address, init) => send(address, init) })
}

function keyOption({ apiKey }: Probe): JsonObject {
  return apiKey === undefined ? {} : { apiKey }
}

function withoutEnd(url: string, end: string): string {
  const bare = url.replace(/\/+$/, '')
  return bare.endsWith(end) ? bare.slice(0, -end.length) : bare
}
