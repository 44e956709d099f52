import type { JsonObject } from './json.ts'

/**
 * What a run may ask whoever called it. `key` tells the questions of one call apart; the same key with another text is
 * the same question asked again.
 */
export type CallerQuestion =
  /** A few flat fields for a person to fill in; never secrets (MCP-76). */
  | {
      readonly kind: 'form'
      readonly key: string
      readonly message: string
      /** Flat object schema of strings, numbers, booleans and choices. */
      readonly schema: JsonObject
    }
  /** A page for a person to open; accepting means "opened", not "done" (MCP-77). */
  | { readonly kind: 'url'; readonly key: string; readonly message: string; readonly url: string }
  /** Passed on for upstreams that ask it (MCP-81): the caller's model, and the folders it works in. */
  | { readonly kind: 'sampling'; readonly key: string; readonly params: JsonObject }
  | { readonly kind: 'roots'; readonly key: string }

export type QuestionKind = CallerQuestion['kind']

export interface CallerAnswer {
  readonly action: 'accept' | 'decline' | 'cancel'
  /** The filled-in form, the message of the model, or the list of folders; only with `accept`. */
  readonly content?: JsonObject
}

/**
 * Asks the caller. Rejects with a `ToolError` when this caller cannot be asked such a question, and resolves with
 * `cancel` when nobody answers in time.
 */
export type AskCaller = (question: CallerQuestion) => Promise<CallerAnswer>
