import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { OfferedTool } from '#core/ports/source'
import type { Binding } from './binding.ts'
import { chooseSecurity, type SecurityContext } from './choose-security.ts'
import { composeInput } from './compose-input.ts'
import { composeOutput } from './compose-output.ts'
import type { Documents } from './documents.ts'
import type { Operation } from './operation.ts'
import { operationPolicy } from './operation-policy.ts'
import type { OpenapiOptions } from './options.ts'
import type { SchemaShelf } from './schema-shelf.ts'
import { chooseServer } from './server-url.ts'

export interface OfferContext {
  readonly documents: Documents
  readonly options: OpenapiOptions
  readonly security: SecurityContext
  readonly input: SchemaShelf
  readonly output: SchemaShelf
}

export type Offer =
  | {
      readonly ok: true
      readonly tool: OfferedTool
      readonly baseUrl: string
      readonly hasCredentials: boolean
      readonly standIns: ReadonlyMap<string, string>
    }
  | { readonly ok: false; readonly problem: string }

const LONGEST_TITLE = 120
const LONGEST_DESCRIPTION = 4_000

/** One operation as a tool, or why it cannot be one. */
export function offerTool(nativeName: string, operation: Operation, context: OfferContext): Offer {
  const { documents, options } = context
  const server = chooseServer(operation.servers, documents, options)
  if (!server.ok) return server
  const security = chooseSecurity(operation.security, context.security)
  if (!security.ok) return security
  const input = composeInput(operation, {
    documents,
    shelf: context.input,
    credentials: security.credentials,
    idempotencyHeader: options.idempotencyHeader,
  })
  const output = composeOutput(operation, context.output, options.output)
  const binding: Binding = {
    baseUrl: server.baseUrl,
    method: operation.method,
    path: operation.path,
    parameters: [...input.parameters],
    ...(input.body === undefined ? {} : { body: input.body }),
    credentials: [...security.credentials],
    tokenEndpoints: [...security.tokenEndpoints],
    ...(input.idempotency === undefined ? {} : { idempotency: input.idempotency }),
    accept: output.accept,
    response: output.response,
  }
  const title = titleOf(operation)
  return {
    ok: true,
    baseUrl: server.baseUrl,
    hasCredentials: security.credentials.length > 0,
    standIns: security.standIns,
    tool: {
      nativeName,
      ...(title === undefined ? {} : { title }),
      description: describe(operation),
      inputSchema: input.schema,
      outputSchema: output.schema,
      ...(security.requirements === undefined ? {} : { requirements: security.requirements }),
      policy: operationPolicy(nativeName, binding, options),
      binding: toJson(binding),
    },
  }
}

function titleOf({ summary }: Operation): string | undefined {
  return summary === undefined || summary.length > LONGEST_TITLE ? undefined : summary
}

function describe({ method, path, summary, description, deprecated }: Operation): string {
  const texts = [
    deprecated ? 'Deprecated.' : undefined,
    summary,
    description === summary ? undefined : description,
  ]
  const said = texts.filter((text) => text !== undefined).join('\n\n')
  const text = said === '' ? `${method.toUpperCase()} ${path}` : said
  return text.length <= LONGEST_DESCRIPTION
    ? text
    : `${text.slice(0, LONGEST_DESCRIPTION - 1).toWellFormed()}…`
}

function toJson(binding: Binding): JsonObject {
  const json: JsonValue = JSON.parse(JSON.stringify(binding))
  return isJsonObject(json) ? json : {}
}
