import { ToolError } from '#core/errors'
import type { Gateway } from '#core/gateway'
import type { HttpReply, HttpRequest, HttpRoute } from '#protocols/http-exchange'
import { unreadForm } from './codec-answer-form.ts'
import { decodeListRequest, type ListForm } from './codec-list.ts'
import type { OtcSettings } from './options.ts'
import { PreparedLists } from './prepared-lists.ts'
import { refusalReply, refuseWith } from './reply.ts'
import { API_KEY_HEADERS, OXP_VERSION_HEADER, PROTOCOL_VERSION } from './wire.ts'

/** Everything that can change the bytes for one URL: encoding, dialect and who asks. */
const VARY = ['accept-encoding', OXP_VERSION_HEADER, 'authorization', ...API_KEY_HEADERS].join(', ')

/** GET `/tools` in the form the request asks for (§3.1), and its bare-array twin under the uts mount. */
export function listRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  const lists = new PreparedLists(gateway.toolkits)
  const route = (path: string, formOf: (request: HttpRequest) => ListForm): HttpRoute => ({
    method: 'GET',
    path,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handleList(request, formOf, { gateway, settings, lists }),
    refuse: refuseWith(settings),
  })
  return [
    route('/tools', (request) => withoutOmittedKey(decodeListRequest(request), settings)),
    route('/uts/tools', utsForm),
  ]
}

interface ListParts {
  readonly gateway: Gateway
  readonly settings: OtcSettings
  readonly lists: PreparedLists
}

async function handleList(
  request: HttpRequest,
  formOf: (request: HttpRequest) => ListForm,
  { gateway, settings, lists }: ListParts,
): Promise<HttpReply> {
  let form: ListForm
  try {
    form = formOf(request)
  } catch (error) {
    if (error instanceof ToolError) return refusalReply(unreadForm(request.headers), error, settings)
    throw error
  }
  const list = lists.get(gateway.catalogFor(request.principal), form)
  const isGzip = acceptsGzip(request.headers['accept-encoding'])
  const etag = isGzip ? list.gzipEtag : list.etag
  const headers = {
    [OXP_VERSION_HEADER]: PROTOCOL_VERSION,
    etag,
    vary: VARY,
    'cache-control': 'private, no-cache',
  }
  if (matchesEtag(request.headers['if-none-match'], etag)) return { status: 304, headers, body: undefined }
  return {
    status: 200,
    headers: {
      ...headers,
      'content-type': 'application/json',
      ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
    },
    body: isGzip ? await list.compressed() : list.bytes,
  }
}

function withoutOmittedKey(form: ListForm, { omitListKey }: OtcSettings): ListForm {
  if (form.shape !== 'both' || omitListKey === undefined) return form
  return { ...form, shape: omitListKey === 'items' ? 'tools' : 'items' }
}

function utsForm(request: HttpRequest): ListForm {
  decodeListRequest(request)
  return { shape: 'uts', schemaId: undefined }
}

function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false
  return acceptEncoding.split(',').some((choice) => {
    const [coding = '', ...parameters] = choice.split(';')
    return coding.trim().toLowerCase() === 'gzip' && !parameters.some(isZeroWeight)
  })
}

function isZeroWeight(parameter: string): boolean {
  return /^\s*q=0(?:\.0*)?\s*$/i.test(parameter)
}

/** Weak comparison, as RFC 9110 asks for `If-None-Match`. */
function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  return ifNoneMatch.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag)
}
