import { z } from 'zod'
import { NAME, SCOPE } from '#config/schema'
import { parseToolName } from '#core/ids'
import type { JsonValue } from '#core/json'
import type { KeyGrant } from '#core/ports/key-store'
import { DEFAULT_TENANT } from '#core/principal'
import { httpFault } from './http-fault.ts'

const MOST_ENTRIES = 1_000
const LONGEST_LABEL = 200
const LONGEST_OVERLAP_SECONDS = 366 * 86_400

/** What can be no name would open nothing, and nobody would notice (OWP-57). */
const TOOL_NAME = z
  .string()
  .max(300)
  .refine((text) => parseToolName(text) !== undefined, {
    error: 'expected a name of a tool, such as "Mail.Send", "Mail.Send@1.0.0" or "openwop:Mail.Send".',
  })
const MOMENT = z.iso.datetime({ offset: true })

const SECRET = {
  tenant: NAME.optional(),
  label: z.string().min(1).max(LONGEST_LABEL).optional(),
  expires_at: MOMENT.optional(),
}

const NEW_KEY = z.strictObject({
  ...SECRET,
  principal: NAME,
  scopes: z.array(SCOPE).max(MOST_ENTRIES).default([]),
  roles: z.array(NAME).max(MOST_ENTRIES).default([]),
  tools: z.array(TOOL_NAME).max(MOST_ENTRIES).optional(),
})

const ROTATION = z.strictObject({
  ...SECRET,
  old_ends_in_seconds: z.int().min(0).max(LONGEST_OVERLAP_SECONDS).optional(),
})

interface Secret {
  readonly tenant: string
  readonly label: string | undefined
  readonly expiresAtMs: number | undefined
}

interface Reading {
  /** Where the asker is, if it is somewhere; what it may not leave. */
  readonly tenant: string | undefined
  readonly nowMs: number
}

/** What a request for a new principal with a key says; throws a 400 that names the member. */
export function readNewKey(
  body: JsonValue | undefined,
  reading: Reading,
): Secret & { readonly name: string; readonly grant: KeyGrant } {
  const { principal, scopes, roles, tools, ...secret } = parse(NEW_KEY, body)
  return { ...readSecret(secret, reading), name: principal, grant: { scopes, roles, tools } }
}

/** What a request for another key of a principal says. */
export function readRotation(
  body: JsonValue | undefined,
  reading: Reading,
): Secret & { readonly oldEndAtMs: number | undefined } {
  const { old_ends_in_seconds: seconds, ...secret } = parse(ROTATION, body ?? {})
  const oldEndAtMs = seconds === undefined ? undefined : reading.nowMs + seconds * 1_000
  return { ...readSecret(secret, reading), oldEndAtMs }
}

function readSecret(
  secret: { tenant?: string | undefined; label?: string | undefined; expires_at?: string | undefined },
  { tenant, nowMs }: Reading,
): Secret {
  const expiresAtMs = secret.expires_at === undefined ? undefined : Date.parse(secret.expires_at)
  if (expiresAtMs !== undefined && expiresAtMs <= nowMs)
    throw httpFault(400, 'expires_at: has passed already.')
  return { tenant: secret.tenant ?? tenant ?? DEFAULT_TENANT, label: secret.label, expiresAtMs }
}

function parse<Schema extends z.ZodType>(schema: Schema, body: JsonValue | undefined): z.output<Schema> {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const where = issue === undefined || issue.path.length === 0 ? 'The body' : issue.path.join('.')
  throw httpFault(400, `${where}: ${issue?.message ?? 'is not as expected.'}`)
}
