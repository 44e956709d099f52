import { parseToolName } from '#core/ids'
import { toolkitOf } from '#core/imports/project'

const KEYSPACE = /^[a-z]+:/

/** Whether a tool may come from a source, by whichever of its names: what that offers is not known before it is asked. */
export function isImported(
  name: string,
  sources: Iterable<readonly [string, { readonly type: string }]>,
): boolean {
  const { base } = parseToolName(name) ?? { base: name }
  const bare = base.replace(KEYSPACE, '')
  return [...sources].some(([key, { type }]) => {
    const toolkit = toolkitOf(key)
    const isInToolkit = ['.', '_'].some((border) => bare.startsWith(`${toolkit}${border}`))
    return isInToolkit || (type === 'command' && base.startsWith('x-host-'))
  })
}
