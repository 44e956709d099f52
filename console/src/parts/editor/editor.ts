import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { json, jsonParseLinter } from '@codemirror/lang-json'
import {
  bracketMatching,
  foldGutter,
  foldKeymap,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from '@codemirror/language'
import { linter } from '@codemirror/lint'
import { Compartment, EditorState } from '@codemirror/state'
import { drawSelection, EditorView, highlightSpecialChars, keymap } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { schemaCompletion } from './completion.ts'

/**
 * The editor for JSON, on CodeMirror. `json-editor.tsx` loads this module when an editor is shown. Invariant: the editor is in a shadow
 * root, where its styles are style sheets that scripts make: the content policy of the page forbids style elements.
 */

export interface Editor {
  /** Replaces the text if it differs, for example after a change in a form. */
  setText(text: string): void
  setProblem(problem: string | undefined): void
  close(): void
}

export interface EditorOptions {
  readonly label: string
  readonly text: string
  /** Names and values are completed from it. */
  readonly schema: unknown
  onChange(text: string): void
}

export function openEditor(host: HTMLElement, { label, text, schema, onChange }: EditorOptions): Editor {
  const attributes = new Compartment()
  const attributesFor = (problem: string | undefined) =>
    EditorView.contentAttributes.of({
      role: 'textbox',
      'aria-multiline': 'true',
      'aria-label': label,
      'aria-invalid': String(problem !== undefined),
      ...(problem === undefined ? {} : { 'aria-description': problem }),
    })
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  let isFromOutside = false
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        history(),
        highlightSpecialChars(),
        drawSelection(),
        foldGutter(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ override: [schemaCompletion(schema)], icons: false }),
        json(),
        linter(jsonParseLinter()),
        syntaxHighlighting(HIGHLIGHT),
        EditorView.lineWrapping,
        EditorView.domEventHandlers({ beforeinput: replaceSelected }),
        THEME,
        attributes.of(attributesFor(undefined)),
        // The page runs the tool on Mod-Enter. Tab leaves the editor, so that the keyboard is not caught in it.
        keymap.of([
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...defaultKeymap.filter(({ key }) => key !== 'Mod-Enter'),
          ...historyKeymap,
          ...foldKeymap,
        ]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !isFromOutside) onChange(update.state.doc.toString())
        }),
      ],
    }),
  })
  return {
    setText(next) {
      if (next === view.state.doc.toString()) return
      isFromOutside = true
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } })
      isFromOutside = false
    },
    setProblem(problem) {
      view.dispatch({ effects: attributes.reconfigure(attributesFor(problem)) })
    },
    close: () => view.destroy(),
  }
}

/**
 * Inserts text in place of a selection, and text of several lines. A browser that splits, joins or empties lines itself adds inline
 * styles, which the content policy of the page refuses.
 */
function replaceSelected({ inputType, isComposing, data }: InputEvent, view: EditorView): boolean {
  if (inputType !== 'insertText' || isComposing || data === null) return false
  const { from, to } = selectedRange(view)
  if (from === to && !data.includes('\n')) return false
  view.dispatch({
    changes: { from, to, insert: data },
    selection: { anchor: from + data.length },
    userEvent: 'input.type',
  })
  return true
}

/** The selection in the document. That of the editor follows it a moment later. */
function selectedRange(view: EditorView): { readonly from: number; readonly to: number } {
  const { root, state } = view
  // Chromium has a selection for each shadow root; elsewhere that of the document reaches into it.
  const selection: unknown =
    'getSelection' in root && typeof root.getSelection === 'function'
      ? root.getSelection()
      : view.dom.ownerDocument.getSelection()
  if (!(selection instanceof Selection) || selection.rangeCount === 0) return state.selection.main
  const { startContainer, startOffset, endContainer, endOffset } = selection.getRangeAt(0)
  if (!view.contentDOM.contains(startContainer) || !view.contentDOM.contains(endContainer))
    return state.selection.main
  return { from: view.posAtDOM(startContainer, startOffset), to: view.posAtDOM(endContainer, endOffset) }
}

const HIGHLIGHT = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--ink)' },
  { tag: [tags.string, tags.number, tags.bool, tags.null], color: 'var(--ink-2)' },
  { tag: [tags.punctuation, tags.separator, tags.bracket], color: 'var(--ink-3)' },
])

const THEME = EditorView.theme({
  '&': { height: '100%', minHeight: 'inherit', color: 'var(--ink)', background: 'transparent' },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-2px' },
  '.cm-scroller': { font: 'var(--type-code)', overflow: 'auto' },
  '.cm-content': { padding: 'var(--s-2) 0', caretColor: 'var(--ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { background: 'transparent', border: '0', color: 'var(--ink-3)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'var(--selected)',
  },
  '.cm-tooltip': {
    background: 'var(--raised)',
    color: 'var(--ink)',
    border: '1px solid var(--line-strong)',
    borderRadius: 'var(--r-2)',
  },
  '.cm-tooltip-autocomplete > ul': { font: 'var(--type-code)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { background: 'var(--selected)', color: 'var(--ink)' },
  '.cm-completionDetail': { color: 'var(--ink-3)', fontStyle: 'normal' },
  '.cm-matchingBracket': { background: 'var(--hover)' },
})
