import type { SchemaLike, ToolDefinition } from './tool-definition.ts'

/** Registered, so that a tool made by another copy of this package is still found. */
const BRAND: unique symbol = Symbol.for('collet.tool')

/** Marks what `tool()` made; a loader takes every exported value that has it. */
export interface DefinedTool<Id extends string = string> {
  readonly id: Id
  readonly [BRAND]: true
}

/**
 * Defines a tool. Only gives types and a mark: everything is checked when the server loads it, so that all
 * findings of all tools are seen at once.
 */
export function tool<
  const I extends SchemaLike,
  const O extends SchemaLike | null,
  S = undefined,
  const Id extends string = string,
>(definition: ToolDefinition<I, O, S> & { readonly id: Id }): ToolDefinition<I, O, S> & DefinedTool<Id> {
  return markTool(definition)
}

/** Makes a definition one that loaders find. */
export function markTool<D extends { readonly id: string }>(definition: D): D & DefinedTool<D['id']> {
  return Object.freeze({ ...definition, [BRAND]: true as const })
}

export function isDefinedTool(value: unknown): value is DefinedTool {
  return typeof value === 'object' && value !== null && BRAND in value && value[BRAND] === true
}
