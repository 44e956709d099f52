import { json } from '@codemirror/lang-json'
import { EditorState } from '@codemirror/state'
import { describe, expect, it } from 'vitest'
import { complete } from './completion.ts'

const SCHEMA = {
  type: 'object',
  properties: {
    to: { type: 'string' },
    urgent: { type: 'boolean' },
    kind: { enum: ['mail', 'sms'] },
    parts: { type: 'array', items: { $ref: '#/$defs/part' } },
    either: { anyOf: [{ properties: { left: {} } }, { properties: { right: {} } }] },
  },
  $defs: { part: { type: 'object', properties: { text: {}, inner: { $ref: '#/$defs/part' } } } },
}

/** The labels that are offered at `|`. */
function offered(text: string, isExplicit = true): readonly string[] {
  const pos = text.indexOf('|')
  const state = EditorState.create({ doc: text.replace('|', ''), extensions: [json()] })
  return complete(SCHEMA, state, pos, isExplicit)?.options.map(({ label }) => label) ?? []
}

describe('completion from a JSON Schema', () => {
  it('offers the members that are not there yet', () => {
    expect(offered('{|}')).toEqual(['"to"', '"urgent"', '"kind"', '"parts"', '"either"'])
    expect(offered('{"to": "x", "u|"}', false)).toEqual(['"urgent"', '"kind"', '"parts"', '"either"'])
  })

  it('offers values of enums and booleans', () => {
    expect(offered('{"kind": "m|"}')).toEqual(['"mail"', '"sms"'])
    expect(offered('{"urgent": t|}')).toEqual(['true', 'false'])
  })

  it('follows items, references that contain themselves, and alternatives', () => {
    expect(offered('{"parts": [{|}]}')).toEqual(['"text"', '"inner"'])
    expect(offered('{"parts": [{"inner": {"inner": {|}}}]}')).toEqual(['"text"', '"inner"'])
    expect(offered('{"either": {|}}')).toEqual(['"left"', '"right"'])
  })

  it('offers nothing where the schema says nothing, and nothing unasked between words', () => {
    expect(offered('{"to": "x|"}')).toEqual([])
    expect(offered('{"unknown": {|}}')).toEqual([])
    expect(offered('{ | }', false)).toEqual([])
  })
})
