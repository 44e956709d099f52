import type { CompletionContext, CompletionResult } from '@codemirror/autocomplete'
import { syntaxTree } from '@codemirror/language'
import type { EditorState } from '@codemirror/state'

/**
 * Completes JSON from its JSON Schema: names of members, and values of enums, constants and booleans. `editor.ts` uses it. References
 * are followed within the schema only, and each at most once on a path, so that a schema that contains itself ends.
 */

type Schema = Readonly<Record<string, unknown>>
type SyntaxNode = ReturnType<ReturnType<typeof syntaxTree>['resolveInner']>

/** A completion source for a document that is described by `schema`. */
export function schemaCompletion(schema: unknown): (context: CompletionContext) => CompletionResult | null {
  return (context) => complete(schema, context.state, context.pos, context.explicit)
}

export function complete(
  schema: unknown,
  state: EditorState,
  pos: number,
  isExplicit: boolean,
): CompletionResult | null {
  const node = syntaxTree(state).resolveInner(pos, -1)
  const isWord = WORDS.has(node.name) && node.to >= pos
  if (!isWord && !isExplicit) return null
  const from = isWord ? node.from : pos
  const holder = isWord ? node.parent : node
  const isName =
    node.name === 'PropertyName' || holder?.name === 'Object' || node.name === '{' || node.name === ','
  if (isName && objectOf(node) !== undefined) {
    const object = objectOf(node)
    const schemas = object === undefined ? [] : schemasAt(schema, pathOf(state, object))
    const known = new Set(object === undefined ? [] : namesIn(state, object, node))
    const names = schemas.flatMap((each) => Object.entries(record(each.properties)))
    const options = names
      .filter(([name]) => !known.has(name))
      .map(([name, member]) => ({
        label: JSON.stringify(name),
        apply: node.name === 'PropertyName' ? JSON.stringify(name) : `${JSON.stringify(name)}: `,
        detail: typeof record(member).type === 'string' ? String(record(member).type) : '',
        type: 'property',
      }))
    return options.length === 0 ? null : { from, options }
  }
  const value = isWord ? node : undefined
  const path = value === undefined ? pathOf(state, node) : pathOf(state, value)
  const options = schemasAt(schema, path)
    .flatMap(valuesOf)
    .map((each) => ({ label: JSON.stringify(each), type: 'constant' }))
  return options.length === 0 ? null : { from, options }
}

/** Nodes that are replaced by a completion. */
const WORDS = new Set(['PropertyName', 'String', 'Number', 'True', 'False', 'Null'])

function objectOf(node: SyntaxNode): SyntaxNode | undefined {
  for (let at: SyntaxNode | null = node; at !== null; at = at.parent) {
    if (at.name === 'Object') return at
    if (at.name === 'Array') return undefined
  }
  return undefined
}

function namesIn(state: EditorState, object: SyntaxNode, current: SyntaxNode): readonly string[] {
  return object.getChildren('Property').flatMap((property) => {
    const name = property.getChild('PropertyName')
    return name === null || name.from === current.from ? [] : [textOf(state, name)]
  })
}

/** The members that lead to a node; an item of an array is `*`. */
function pathOf(state: EditorState, node: SyntaxNode): readonly string[] {
  const path: string[] = []
  for (let at: SyntaxNode | null = node; at !== null; at = at.parent) {
    if (at.name === 'Property') {
      const name = at.getChild('PropertyName')
      if (name !== null) path.unshift(textOf(state, name))
    } else if (at.parent?.name === 'Array') path.unshift('*')
  }
  return path
}

function textOf(state: EditorState, name: SyntaxNode): string {
  const text = state.sliceDoc(name.from, name.to)
  try {
    return String(JSON.parse(text))
  } catch {
    return text.replaceAll('"', '')
  }
}

/** The schemas that describe the value at a path: more than one where the schema has alternatives. */
function schemasAt(schema: unknown, path: readonly string[]): readonly Schema[] {
  let found = alternatives(schema, schema)
  for (const step of path)
    found = found.flatMap((each) => {
      const next = step === '*' ? each.items : (record(each.properties)[step] ?? each.additionalProperties)
      return alternatives(next, schema)
    })
  return found
}

function alternatives(schema: unknown, root: unknown, seen: readonly unknown[] = []): readonly Schema[] {
  if (!isRecord(schema) || seen.includes(schema)) return []
  const inner = [schema.anyOf, schema.oneOf, schema.allOf].flatMap((list) =>
    Array.isArray(list) ? list : [],
  )
  const target = typeof schema.$ref === 'string' ? [referenced(root, schema.$ref)] : []
  return [schema, ...[...inner, ...target].flatMap((each) => alternatives(each, root, [...seen, schema]))]
}

function referenced(root: unknown, reference: string): unknown {
  if (!reference.startsWith('#')) return undefined
  const steps = reference.split('/').slice(1)
  return steps.reduce<unknown>(
    (at, step) => record(at)[decodeURIComponent(step).replaceAll('~1', '/').replaceAll('~0', '~')],
    root,
  )
}

function valuesOf(schema: Schema): readonly unknown[] {
  if (Array.isArray(schema.enum)) return schema.enum
  if ('const' in schema) return [schema.const]
  return schema.type === 'boolean' ? [true, false] : []
}

function record(value: unknown): Schema {
  return isRecord(value) ? value : {}
}

function isRecord(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
