import { type ReactNode, useEffect, useEffectEvent, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import type { Editor } from './editor.ts'
import './editor.css'

/**
 * A field for JSON. Forms with JSON input use it. The editor is loaded when the field is shown; if it cannot be loaded, a plain text
 * field takes its place. Invariant: the text that the parent holds is what the field shows.
 */
export function JsonEditor({ label, text, schema, problem, onChange }: JsonEditorProps): ReactNode {
  const host = useRef<HTMLDivElement>(null)
  const editor = useRef<Editor>(undefined)
  const [state, setState] = useState<'loading' | 'open' | 'failed'>('loading')
  const changed = useEffectEvent(onChange)
  const latest = useEffectEvent(() => ({ label, text, schema }))
  useEffect(() => {
    let isMounted = true
    // At once: a shortcut that follows the last letter runs the tool with what is shown.
    const changeAtOnce = (next: string): void => flushSync(() => changed(next))
    import('./editor.ts').then(
      ({ openEditor }) => {
        if (!isMounted || host.current === null) return
        editor.current = openEditor(host.current, { ...latest(), onChange: changeAtOnce })
        setState('open')
      },
      () => {
        if (isMounted) setState('failed')
      },
    )
    return () => {
      isMounted = false
      editor.current?.close()
      editor.current = undefined
    }
  }, [])
  // Only after a change of the text: the editor opens with the latest, and may have been edited since.
  useEffect(() => editor.current?.setText(text), [text])
  useEffect(() => {
    if (state === 'open') editor.current?.setProblem(problem)
  }, [problem, state])
  if (state === 'failed')
    return (
      <textarea
        aria-label={label}
        spellCheck={false}
        value={text}
        aria-invalid={problem !== undefined}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
    )
  return (
    <div className="json-editor">
      <div ref={host} className="json-editor-host" />
      {state === 'loading' && <pre aria-busy="true">{text}</pre>}
    </div>
  )
}

interface JsonEditorProps {
  readonly label: string
  readonly text: string
  /** A JSON Schema of the value, for completion. */
  readonly schema: unknown
  /** Why the text is not valid; read to screen readers. */
  readonly problem: string | undefined
  readonly onChange: (text: string) => void
}
