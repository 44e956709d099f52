import type { CREATE_KEY } from '../../../../src/admin-api/keys.ts'
import type { BodyOf } from '../../../../src/admin-api/operation.ts'
import { quoted } from '../../app/commands.ts'

/*
 * The form of a new key as a request and as a command. Used by several pages. Empty fields are left out.
 */

/** The form of a new key, as typed. */
export interface KeyForm {
  readonly principal: string
  readonly scopes: string
  readonly roles: string
  readonly tools: string
  readonly toolsets: readonly string[]
  readonly tenant: string
  readonly label: string
  /** The number of days until the key expires; empty for a key that does not expire. */
  readonly expires: string
}

export const EMPTY_FORM: KeyForm = {
  principal: '',
  scopes: '',
  roles: '',
  tools: '',
  toolsets: [],
  tenant: '',
  label: '',
  expires: '90',
}

export const EXPIRIES = [
  { value: '7', label: 'in 7 days' },
  { value: '30', label: 'in 30 days' },
  { value: '90', label: 'in 90 days' },
  { value: '365', label: 'in a year' },
  { value: '', label: 'never' },
] as const

const DAY_MS = 86_400_000

/** The body of the request. Empty fields are left out, because an empty list of tools would allow none. */
export function termsOf(form: KeyForm, now = Date.now()): BodyOf<typeof CREATE_KEY> {
  const [tenant, label] = [form.tenant.trim(), form.label.trim()]
  const tools = words(form.tools)
  return {
    principal: form.principal.trim(),
    scopes: words(form.scopes),
    roles: words(form.roles),
    ...(tenant === '' ? {} : { tenant }),
    ...(label === '' ? {} : { label }),
    ...(tools.length === 0 ? {} : { tools }),
    ...(form.toolsets.length === 0 ? {} : { toolsets: form.toolsets }),
    ...(form.expires === ''
      ? {}
      : { expires_at: new Date(now + Number(form.expires) * DAY_MS).toISOString() }),
  }
}

/** Members of the request, each with the field of the form and its label. */
const FIELDS: ReadonlyMap<string, readonly [keyof KeyForm, string]> = new Map([
  ['principal', ['principal', 'Name']],
  ['scopes', ['scopes', 'Scopes']],
  ['roles', ['roles', 'Roles']],
  ['tools', ['tools', 'Only these tools']],
  ['toolsets', ['toolsets', 'Only these toolsets']],
  ['tenant', ['tenant', 'Tenant']],
  ['label', ['label', 'Label']],
  ['expires_at', ['expires', 'Expires']],
])

/** The field that a server message is about, and the message with the field's label instead of the API's name. */
export function problemOf(message: string): { readonly member: keyof KeyForm; readonly text: string } {
  const [, named = '', text = ''] = /^(\w+)(?:\.\d+)?: (.+)$/s.exec(message) ?? []
  const [member, label] = FIELDS.get(named) ?? []
  return member === undefined ? { member: 'principal', text: message } : { member, text: `${label}: ${text}` }
}

/** The form as a command. */
export function commandOf(form: KeyForm): string {
  const option = (name: string, values: readonly string[]): readonly string[] =>
    values.flatMap((value) => [`--${name}`, quoted(value)])
  return [
    'collet keys create',
    quoted(form.principal.trim() === '' ? 'NAME' : form.principal.trim()),
    ...option('scope', words(form.scopes)),
    ...option('role', words(form.roles)),
    ...option('toolset', form.toolsets),
    ...option('tool', words(form.tools)),
    ...option('tenant', nonEmpty(form.tenant)),
    ...option('label', nonEmpty(form.label)),
    ...option('expires', form.expires === '' ? [] : [`${form.expires}d`]),
  ].join(' ')
}

/** Words separated by spaces or commas. */
export function words(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '')
}

function nonEmpty(text: string): readonly string[] {
  return text.trim() === '' ? [] : [text.trim()]
}
