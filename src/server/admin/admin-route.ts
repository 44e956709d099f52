/**
 * Creates routes for the operations in `src/admin-api`: a route checks the scope, reads query and body as the operation declares them,
 * and returns the declared answer. Every file in this folder serves its routes through this module. Caches do not store the answers,
 * and a request that cannot be read gets a 400 that names the invalid member.
 */
import type { z } from 'zod'
import { type DeepReadonly, type Operation, UNDECLARED } from '#admin-api/operation'
import { fault, isToolError, type ToolError } from '#kernel/base/errors'
import type { JsonValue } from '#kernel/base/json'
import { DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { jsonReply, refuseWithMessage } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { isOperator, type OperatorAccess } from './access.ts'

interface OperationRequest<Query, Body> {
  readonly principal: Principal
  /** The path parameter; empty if the path has none. */
  readonly id: string
  readonly query: Query
  readonly body: Body
  readonly http: HttpRequest
}

export function serveOperation<Query extends z.ZodType, Body extends z.ZodType, Answer extends object>(
  access: OperatorAccess,
  operation: Operation<Query, Body, Answer>,
  handle: (
    request: OperationRequest<z.output<Query>, z.output<Body>>,
  ) => Promise<DeepReadonly<NoInfer<Answer>>>,
): ServerRoute {
  return serveReply(access, operation, async (request) =>
    jsonReply(operation.status ?? 200, await handle(request)),
  )
}

/** Serves an operation whose answer is a stream or prepared text. */
export function serveReply<Query extends z.ZodType, Body extends z.ZodType>(
  access: OperatorAccess,
  operation: Operation<Query, Body>,
  handle: (request: OperationRequest<z.output<Query>, z.output<Body>>) => Promise<HttpReply>,
): ServerRoute {
  const { method, path, serverScope, scope = serverScope } = operation
  return {
    ...{ access: 'authenticated', method, path },
    authenticate: operation.access === 'callers' ? access.admit : access.authenticate,
    body: method === 'POST' ? 'json' : 'never',
    refuse: (...refused) => withNoStore(refuseWithMessage(...refused)),
    async handle(http) {
      const { principal, params } = http
      if (hasNul(http.body)) throw badRequest('A string in the body contains the NUL character.')
      if (scope !== undefined) access.requireScope(principal, scope)
      if (serverScope !== undefined && !isOperator(principal) && principal.tenant !== DEFAULT_TENANT) {
        access.noteDenied(principal, serverScope)
        throw fault(
          'not_authorized',
          'This operation concerns the whole server, but this credential is for one tenant.',
        )
      }
      const [id = ''] = Object.values(params)
      const query = parse(operation.query(), queryMembers(http.query), 'The query')
      const body = parse(operation.body(), http.body, 'The body')
      try {
        return withNoStore(await handle({ principal, id, query, body, http }))
      } catch (error) {
        // A refusal that the handler finds after the scope check is audited too.
        if (scope !== undefined && isToolError(error) && error.code === 'not_authorized')
          access.noteDenied(principal, scope)
        throw error
      }
    },
  }
}

/** An empty parameter counts as absent; if a parameter is repeated, its first value is used. */
function queryMembers(query: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries([...query].filter(([, value]) => value !== '').reverse())
}

/** Ignores a query or body that the operation does not declare. */
function parse<Schema extends z.ZodType>(schema: Schema, value: unknown, whole: string): z.output<Schema> {
  return readAs(schema, Object.is(schema, UNDECLARED()) ? undefined : value, whole)
}

/** Reads a value; throws a 400 that names the first invalid member. */
export function readAs<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  whole: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue === undefined || issue.path.length === 0 ? whole : issue.path.join('.')
  throw badRequest(`${where}: ${issue?.message ?? 'is invalid.'}`)
}

/** Answers must not be cached, because they depend on the reader and the time. */
export const NO_STORE = { 'cache-control': 'no-store' }

function withNoStore(reply: HttpReply): HttpReply {
  return { ...reply, headers: { ...NO_STORE, ...reply.headers } }
}

/** Text with NUL is refused, because no store can keep it. The recursion is bounded: bodies are at most 100 levels deep. */
function hasNul(value: JsonValue | undefined): boolean {
  if (typeof value === 'string') return value.includes('\0')
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([name, member]) => name.includes('\0') || hasNul(member))
}

export function badRequest(message: string): ToolError {
  return fault('request_invalid', message)
}

export function timeOf(atMs: number): string
export function timeOf(atMs: number | undefined): string | null
export function timeOf(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString()
}
