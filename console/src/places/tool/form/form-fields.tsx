import type { FieldProps } from '@rjsf/utils'
import { type ReactNode, useState } from 'react'
import { TextArea } from '../../../parts/field.tsx'
import { WORDS } from '../words.tsx'

/*
 * The form field for any JSON, for schemas without a type. `input-form.tsx` uses it.
 */

/** A field for any JSON, for schemas without a type. */
export function AnyJsonField({ fieldPathId, formData, onChange, required }: FieldProps): ReactNode {
  const [typed, setTyped] = useState<string>()
  const text = typed ?? (formData === undefined ? '' : JSON.stringify(formData))
  const problem = typed === undefined || typed.trim() === '' ? undefined : problemOf(typed)
  const id = fieldPathId.$id
  return (
    <>
      <TextArea
        isMono
        id={id}
        rows={2}
        value={text}
        placeholder={required === true ? WORDS.json : WORDS.jsonOrEmpty}
        aria-invalid={problem !== undefined}
        aria-describedby={problem === undefined ? undefined : `${id}-json`}
        onChange={(event) => {
          const next = event.currentTarget.value
          setTyped(next)
          if (next.trim() === '') onChange(undefined, fieldPathId.path)
          else if (problemOf(next) === undefined) onChange(JSON.parse(next), fieldPathId.path)
        }}
        onBlur={() => {
          if (problem === undefined) setTyped(undefined)
        }}
      />
      {problem !== undefined && (
        <span className="err" id={`${id}-json`}>
          {problem}
        </span>
      )}
    </>
  )
}

function problemOf(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch {
    return WORDS.notValidJsonTextNeeds
  }
}
