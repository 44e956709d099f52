/** What `store` names, before its path is made absolute. */
export type StoreUrl =
  | { readonly kind: 'sqlite'; readonly path: string }
  | { readonly kind: 'memory' }
  | { readonly kind: 'invalid'; readonly problem: string }

const FORMS = 'Write "sqlite:PATH" or "memory:".'

/** Reads `sqlite:PATH` and `memory:`. The text is not repeated in problems: it may hold a password. */
export function parseStoreUrl(text: string): StoreUrl {
  const [, scheme = '', rest = ''] = /^([A-Za-z][A-Za-z0-9+.-]*):(.*)$/s.exec(text) ?? []
  if (scheme === 'memory') {
    return rest === '' ? { kind: 'memory' } : invalid('"memory:" takes nothing after the colon.')
  }
  if (scheme === 'sqlite') return sqliteUrl(rest)
  if (scheme === 'postgres' || scheme === 'postgresql') {
    return invalid(`PostgreSQL stores come in a later release. ${FORMS}`)
  }
  return invalid(`expected a store address. ${FORMS}`)
}

function sqliteUrl(path: string): StoreUrl {
  if (path === '') return invalid('"sqlite:" needs a path, for example "sqlite:.collet/collet.db".')
  if (path === ':memory:') return invalid('a store without a file is written "memory:".')
  if (path.startsWith('//')) {
    return invalid(
      'write the path directly after "sqlite:", without "//", for example "sqlite:.collet/collet.db".',
    )
  }
  if (path.includes('\0')) return invalid('a path cannot contain NUL.')
  return { kind: 'sqlite', path }
}

function invalid(problem: string): StoreUrl {
  return { kind: 'invalid', problem }
}
