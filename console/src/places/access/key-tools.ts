import { coversScope } from '../../../../src/kernel/base/principal.ts'
import type { ToolListing } from '../../api/tools.ts'
import { type KeyForm, words } from './key-form.ts'

/*
 * Which tools of the catalog a new key will see, by the same rules as on the server: a tool must be named by the key, if the key
 * names any, and the key must hold all its scopes. Used by the picker in the form of a key.
 */

type Row = ToolListing['tools'][number]

interface ToolScope {
  readonly tool: string
  readonly scope: string
}

interface KeyView {
  readonly seen: number
  /** Scopes of named tools that the key does not hold. */
  readonly missing: readonly ToolScope[]
}

/** The tools that the key will see; `undefined` if the form names roles, whose scopes only the server knows. */
export function viewOf(
  listing: Pick<ToolListing, 'tools' | 'requirements'>,
  form: Pick<KeyForm, 'scopes' | 'roles' | 'tools' | 'toolsets' | 'tenant'>,
): KeyView | undefined {
  if (words(form.roles).length > 0) return undefined
  const [held, named] = [words(form.scopes), words(form.tools)]
  const isBound = named.length > 0 || form.toolsets.length > 0
  const lacks = (row: Row): readonly string[] =>
    scopesOf(row, listing).filter((scope) => !coversScope(held, scope))
  const inToolset = (row: Row): boolean => row.toolsets?.some((name) => form.toolsets.includes(name)) ?? false
  const tenant = form.tenant.trim() || 'default'
  const own = listing.tools.filter(({ tenants }) => tenants?.includes(tenant) ?? true)
  const allowed = own.filter((row) => !isBound || inToolset(row) || isNamed(row, named))
  return {
    seen: allowed.filter((row) => lacks(row).length === 0).length,
    missing: allowed.flatMap((row) => (isBound ? lacks(row).map((scope) => ({ tool: row.id, scope })) : [])),
  }
}

/** Adds a tool to the list by its catalog id, or removes all its names if it is listed. */
export function toggleTool(text: string, row: Pick<Row, 'id' | 'name' | 'catalog_id'>): string {
  const named = words(text)
  const others = named.filter((name) => !namesOf(row).includes(name))
  return (others.length < named.length ? others : [...named, row.catalog_id]).join(' ')
}

/** Whether the list names this tool itself, not by a pattern. */
export function isPicked(text: string, row: Pick<Row, 'id' | 'name' | 'catalog_id'>): boolean {
  return words(text).some((name) => namesOf(row).includes(name))
}

function namesOf({ id, name, catalog_id }: Pick<Row, 'id' | 'name' | 'catalog_id'>): readonly string[] {
  return [id, name, catalog_id]
}

function isNamed(row: Row, named: readonly string[]): boolean {
  return named.some((text) => {
    if (text.startsWith('source:')) return matches(row.source, text.slice('source:'.length))
    if (text.startsWith('tag:'))
      return row.tags?.some((tag) => matches(tag, text.slice('tag:'.length))) ?? false
    const [name = '', version] = text.split('@')
    const versions = row.versions ?? [row.version]
    const isVersion = version === undefined || versions.some((one) => matches(one, version))
    return isVersion && namesOf(row).some((one) => matches(one, name))
  })
}

function matches(name: string, pattern: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[\\^$.|?+()[\]{}]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`, 'u').test(name)
}

function scopesOf({ needs = [] }: Row, { requirements }: Pick<ToolListing, 'requirements'>) {
  return needs.flatMap((at) => {
    const need = requirements[at]
    return need?.kind === 'scope' ? [need.id] : []
  })
}
