import { z } from 'zod'
import { fault } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { BODY_FORMS, STYLES } from './operation.ts'
import { METHODS } from './options.ts'

/**
 * The binding of an operation: the part of an accepted definition that decides which request a call sends.
 * `offer-tool.ts` makes it, and calls read it. Invariant: it does not contain the value of a credential.
 */

const ENCODING = {
  style: z.enum(STYLES),
  explode: z.boolean(),
  allowReserved: z.boolean(),
  mediaType: z.string().optional(),
}

const PARAMETER = z.strictObject({
  /** Name in the input. */
  property: z.string(),
  /** Name on the wire. */
  name: z.string(),
  in: z.enum(['path', 'query', 'header', 'cookie']),
  ...ENCODING,
  /** The schema type, needed to convert the parameters of a next page to input. */
  isNumber: z.boolean(),
})

const FIELD = z.strictObject({ file: z.boolean(), encoding: z.strictObject(ENCODING).partial() })

const BODY = z.strictObject({
  property: z.string(),
  mediaType: z.string(),
  form: z.enum(BODY_FORMS),
  fields: z.record(z.string(), FIELD),
})

const CREDENTIAL = z.strictObject({
  in: z.enum(['header', 'query', 'cookie']),
  name: z.string(),
  form: z.enum(['plain', 'bearer', 'basic']),
  from: z.enum(['token', 'secret']),
  id: z.string(),
})

/** Everything that a call needs besides its input. It is kept with the pin, so that calls go only to the accepted upstream (rule 32). */
const BINDING = z.strictObject({
  baseUrl: z.string(),
  method: z.enum(METHODS),
  path: z.string(),
  parameters: z.array(PARAMETER),
  body: BODY.optional(),
  credentials: z.array(CREDENTIAL),
  /** The token endpoints that the document names. */
  tokenEndpoints: z.array(z.string()),
  idempotency: z
    .strictObject({ header: z.string(), form: z.enum(['text', 'uuid']), maxLength: z.int().optional() })
    .optional(),
  accept: z.string(),
  response: z.strictObject({
    json: z.boolean(),
    raw: z.boolean(),
    /** The response headers that are returned with the body. */
    headers: z.array(z.string()),
  }),
})

export type Binding = z.output<typeof BINDING>
export type BoundParameter = Binding['parameters'][number]
export type BoundBody = z.output<typeof BODY>
export type BoundField = z.output<typeof FIELD>
export type BoundCredential = z.output<typeof CREDENTIAL>
export type BoundIdempotency = NonNullable<Binding['idempotency']>

const parsedBindings = new WeakMap<JsonObject, Binding>()

/** Parses the accepted binding from the store, once. */
export function readBinding(stored: JsonObject): Binding {
  const known = parsedBindings.get(stored)
  if (known !== undefined) return known
  const parsed = BINDING.safeParse(stored)
  if (!parsed.success) {
    throw fault('upstream_failed', 'This tool was imported by another version of the server.', {
      developerMessage: "The tool's binding cannot be read. Refresh the source and accept the change.",
      cause: parsed.error,
    })
  }
  parsedBindings.set(stored, parsed.data)
  return parsed.data
}
