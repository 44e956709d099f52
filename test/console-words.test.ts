import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'vite'
import { expect, it } from 'vitest'

/**
 * Texts of the console stand in the words modules (`words.ts`, `words.tsx`) of their places and parts, so that they are read and changed
 * together. This test finds texts in the JSX of other modules.
 */

const ROOT = join(import.meta.dirname, '../console/src')
/** These places do not have all of their texts in words modules yet. */
const UNCHECKED = /^places\/(calls|audit)\//
/** Attributes that people read or hear. */
const READ =
  /^(aria-label|aria-description|alt|caption|explanation|hint|label|legend|note|placeholder|title|what)$/
/** Code is written as the machine reads it. */
const CODE: ReadonlySet<unknown> = new Set(['code', 'kbd', 'pre'])

it('texts of pages stand in words modules', () => {
  const files = globSync('**/*.tsx', { cwd: ROOT }).filter(
    (file) => !/(^|\/)words\.tsx$/.test(file) && !UNCHECKED.test(file),
  )
  expect(files.length).toBeGreaterThan(70)
  expect(files.toSorted().flatMap((file) => textsIn(file, readFileSync(join(ROOT, file), 'utf8')))).toEqual(
    [],
  )
})

it('finds a text between tags and in an attribute, and leaves code alone', () => {
  const text = '<p title="A tip"><b>Two words</b> <code>collet tools</code>{count} · <kbd>esc</kbd></p>'
  expect(textsIn('x.tsx', `export const x = ${text}`)).toEqual(['x.tsx: A tip', 'x.tsx: Two words'])
})

function textsIn(file: string, source: string): readonly string[] {
  const found: string[] = []
  const add = (text: unknown): void => {
    if (typeof text === 'string' && /\p{L}{2,}/u.test(text)) found.push(`${file}: ${text.trim()}`)
  }
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) for (const child of node) visit(child)
    if (!isNode(node)) return
    if (node.type === 'JSXElement' && isNode(node.openingElement) && CODE.has(nameOf(node.openingElement)))
      return
    if (node.type === 'JSXText') add(node.value)
    if (node.type === 'JSXAttribute' && READ.test(nameOf(node)) && isNode(node.value)) add(node.value.value)
    for (const [name, child] of Object.entries(node)) if (name !== 'type') visit(child)
  }
  visit(parseSync(file, source).program)
  return found
}

function nameOf({ name }: Node): string {
  if (!isNode(name)) return ''
  if (typeof name.name === 'string') return name.name
  return ''
}

interface Node {
  readonly type: string
  readonly [member: string]: unknown
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
}
