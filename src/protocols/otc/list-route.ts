import type { Gateway } from '#core/calls/gateway'
import { ToolError } from '#core/errors'
import { API_KEY_HEADERS, type HttpReply, type HttpRequest, type HttpRoute } from '#protocols/http-exchange'
import { replyPrepared } from '#protocols/prepared-bytes'
import { PreparedViews } from '#protocols/prepared-views'
import { unreadForm } from './codec-answer-form.ts'
import { decodeListRequest, encodeList, type ListForm } from './codec-list.ts'
import type { OtcSettings } from './options.ts'
import { refusalReply, refuseWith } from './reply.ts'
import { OXP_VERSION_HEADER, PROTOCOL_VERSION } from './wire.ts'

/** Everything that can change the bytes for one URL: encoding, dialect and who asks. */
const VARY = ['accept-encoding', OXP_VERSION_HEADER, 'authorization', ...API_KEY_HEADERS].join(', ')

/** Callers choose the spelling of `$schema`. */
const MOST_VARIANTS = 8

/** GET `/tools` in the form the request asks for (§3.1), and its bare-array twin under the uts mount. */
export function listRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  const lists = new PreparedViews(MOST_VARIANTS)
  const route = (path: string, formOf: (request: HttpRequest) => ListForm): HttpRoute => ({
    method: 'GET',
    path,
    access: 'authenticated',
    body: 'json',
    handle: (request) => handleList(request, formOf, { gateway, settings, lists }),
    refuse: refuseWith(settings),
  })
  return [
    route('/tools', (request) =>
      withoutOmittedKey(decodeListRequest(request, settings.defaultSchema), settings),
    ),
    route('/uts/tools', utsForm),
  ]
}

interface ListParts {
  readonly gateway: Gateway
  readonly settings: OtcSettings
  readonly lists: PreparedViews
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
    if (error instanceof ToolError)
      return refusalReply(unreadForm(request.headers, settings), error, settings)
    throw error
  }
  const catalog = gateway.catalogFor(request.principal)
  const list = lists.get(catalog, `${form.shape} ${form.schemaId}`, () =>
    encodeList(form, { tools: catalog.tools, toolkits: gateway.toolkits() }),
  )
  return replyPrepared(request, list, {
    [OXP_VERSION_HEADER]: PROTOCOL_VERSION,
    vary: VARY,
    'cache-control': 'private, no-cache',
  })
}

function withoutOmittedKey(form: ListForm, { omitListKey }: OtcSettings): ListForm {
  if (form.shape !== 'both' || omitListKey === undefined) return form
  return { ...form, shape: omitListKey === 'items' ? 'tools' : 'items' }
}

function utsForm(request: HttpRequest): ListForm {
  decodeListRequest(request)
  return { shape: 'uts', schemaId: undefined }
}
