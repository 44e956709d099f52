/**
 * Declares an operation of the admin API once: method, path, access, request and answer. The server reads requests with the declaration
 * and checks its answers against it at compile time, `GET /admin/openapi.json` is generated from it, and the console and the command line
 * import its types. This module runs in browsers too, so it depends on zod alone. Schemas are created when they are first used, so that
 * starting a server does not wait for them. Members on the wire are in snake_case.
 */
import { z } from 'zod'

/** Every scope that the server's own routes need. */
export const SERVER_SCOPES = [
  'admin:calls',
  'admin:keys',
  'admin:pins',
  'admin:reload',
  'admin:secrets',
  'admin:sources',
  'admin:webhooks',
  'approvals:override',
  'approvals:read',
  'approvals:respond',
  'approvals:rules',
  'audit:read',
  'calls:read',
  'calls:settle',
  'metrics:read',
  'users:assert',
] as const

export type ServerScope = (typeof SERVER_SCOPES)[number]

/** Statuses besides 400, 401, 403 and 503, which every operation may answer. */
export type ErrorStatus = 404 | 409 | 410 | 422 | 429

const METHODS = ['GET', 'POST', 'DELETE'] as const
type Method = (typeof METHODS)[number]

interface Declaration<Query extends z.ZodType, Body extends z.ZodType, Answer extends object> {
  /** Method and path, which has at most one parameter: `DELETE /admin/keys/:key_id`. */
  readonly route: `${Method} /admin/${string}`
  readonly summary: string
  readonly description?: string
  /** The scope that the server checks before it reads the request. Without a scope the handler decides who may do what. */
  readonly scope?: ServerScope
  /** For operations that concern all tenants: a scope that counts only in the default tenant. */
  readonly serverScope?: ServerScope
  /** `callers`: needs a credential only if calling tools does. `open`: needs no credential. Default: always needs a credential. */
  readonly access?: 'callers' | 'open'
  readonly parameter?: string
  /** Request headers that the operation reads, each with its meaning. */
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: () => Query
  readonly body?: () => Body
  /** Absent: the answer is a stream of events, which the description explains. */
  readonly answer?: () => z.ZodType<Answer>
  /** Media types of an answer that is a stream of something other than events. */
  readonly media?: readonly string[]
  /** Default 200. */
  readonly status?: 201
  /** Whether the operation answers 304 if `If-None-Match` names the current answer. */
  readonly isTagged?: true
  readonly errors?: readonly ErrorStatus[]
}

export interface Operation<
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Answer extends object = object,
> extends Declaration<Query, Body, Answer> {
  readonly method: Method
  readonly path: string
  readonly query: () => Query
  readonly body: () => Body
}

/** The schema of a query or body that is not declared. */
export const UNDECLARED = memoize(() => z.undefined())

export function operation<
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
  Answer extends object = object,
>(declared: Declaration<Query, Body, Answer>): Operation<Query, Body, Answer>
export function operation(declared: Declaration<z.ZodType, z.ZodType, object>): Operation {
  const { route, query = UNDECLARED, body = UNDECLARED } = declared
  const method = METHODS.find((name) => route.startsWith(`${name} `)) ?? 'GET'
  return {
    ...declared,
    method,
    path: route.slice(method.length + 1),
    query: memoize(query),
    body: memoize(body),
  }
}

/** Gives a schema a name in the document, where other schemas refer to it. */
export function named<Schema extends z.ZodType>(id: string, make: () => Schema): () => Schema {
  return memoize(() => make().meta({ id }))
}

function memoize<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** The type that a schema describes, read-only at every depth. */
export type Shape<Made extends () => z.ZodType> = DeepReadonly<z.output<ReturnType<Made>>>

export type AnswerOf<Declared> =
  Declared extends Operation<z.ZodType, z.ZodType, infer Answer> ? DeepReadonly<Answer> : never

/** The type of the body that a client sends. */
export type BodyOf<Declared extends Operation> = DeepReadonly<z.input<ReturnType<Declared['body']>>>

export type DeepReadonly<Value> = [Json] extends [Value]
  ? Value
  : { readonly [Member in keyof Value]: DeepReadonly<Value[Member]> }

/** A time in an answer, always UTC. */
export const time = () => z.string().meta({ format: 'date-time' })

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

export const json = () => z.custom<Json>()

export const texts = () => z.array(z.string())

/** Whether an answer counts all calls; the server reads only a bounded number of them. */
export const isWhole = () => z.boolean().describe('False if older calls were left out of the count.')

export const timeInQuery = () =>
  z
    .string()
    .refine((text) => Number.isFinite(Date.parse(text)), {
      error: 'expected a time like 2026-01-31T10:00:00Z.',
    })
    .meta({ format: 'date-time' })
    .optional()

/** A whole number in a query, where everything is text. */
export const numberInQuery = (max = Number.MAX_SAFE_INTEGER, min = 0) =>
  z.coerce
    .number({ error: 'expected a whole number.' })
    .refine(Number.isSafeInteger, { error: 'expected a whole number.', abort: true })
    .min(min, { error: `expected a whole number from ${min} to ${max}.` })
    .max(max, { error: `expected a whole number from ${min} to ${max}.` })
    .meta({ type: 'integer' })
