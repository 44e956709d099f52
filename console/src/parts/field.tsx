import {
  type ComponentProps,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
} from 'react'
import { Icon } from './icon.tsx'
import { WORDS } from './words.tsx'

/*
 * Form fields: label, control, hint and error, and the search field of a page. Used by several pages.
 */

export interface FieldProps {
  readonly label: ReactNode
  /** A grey text after the label: "optional", a type, a default. */
  readonly note?: ReactNode
  readonly hint?: ReactNode
  /** What is wrong with the value, and what is allowed. */
  readonly error?: ReactNode
  /** Renders the control with the ids that connect it to its label and texts. */
  readonly children: (control: ControlProps) => ReactNode
}

interface ControlProps {
  readonly id: string
  readonly 'aria-describedby'?: string | undefined
  readonly 'aria-invalid'?: boolean | undefined
}

export function Field({ label, note, hint, error, children }: FieldProps): ReactNode {
  const id = useId()
  const textIds = [hint === undefined ? '' : `${id}-hint`, error === undefined ? '' : `${id}-error`]
  const describedBy = textIds.filter((part) => part !== '').join(' ')
  return (
    <div className={error === undefined ? 'field' : 'field bad'}>
      <label htmlFor={id}>
        {label}
        {note !== undefined && <span className="dim">{note}</span>}
      </label>
      {children({
        id,
        'aria-describedby': describedBy === '' ? undefined : describedBy,
        'aria-invalid': error === undefined ? undefined : true,
      })}
      {hint !== undefined && (
        <span className="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {error !== undefined && (
        <span className="err" id={`${id}-error`} role="alert">
          <Icon name="alert" size={12} />
          {error}
        </span>
      )}
    </div>
  )
}

export function TextField({ label, note, hint, error, onChange, ...rest }: TextFieldProps): ReactNode {
  return (
    <Field label={label} note={note} hint={hint} error={error}>
      {(control) => (
        <TextInput {...control} {...rest} onChange={(event) => onChange(event.currentTarget.value)} />
      )}
    </Field>
  )
}

interface TextFieldProps
  extends Omit<FieldProps, 'children'>,
    Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange' | 'value' | 'className'>,
    Mono {
  readonly value: string
  readonly onChange: (text: string) => void
}

/** `isMono` is for ids, keys, addresses and JSON. */
export function TextInput({ isMono, ...rest }: ComponentProps<'input'> & Mono): ReactNode {
  return <input type="text" autoComplete="off" spellCheck={false} {...rest} className={inputClass(isMono)} />
}

export function TextArea({ isMono, ...rest }: TextareaHTMLAttributes<HTMLTextAreaElement> & Mono): ReactNode {
  return <textarea rows={4} spellCheck={false} {...rest} className={inputClass(isMono)} />
}

interface Mono {
  readonly isMono?: boolean
}

function inputClass(isMono = false): string {
  return isMono ? WORDS.inputMono : 'input'
}

/** The native select. `isBare` removes the border. */
export function Select({ options, isBare, isMono, ...rest }: SelectProps): ReactNode {
  const kind = [isBare ? 'bare' : '', isMono ? 'mono' : ''].filter((part) => part !== '').join(' ')
  return (
    <span className={`pick ${kind}`.trim()}>
      <select {...rest} className={`select ${kind}`.trim()}>
        {options.map(({ value, label }) => (
          <option key={value} value={value}>
            {label ?? value}
          </option>
        ))}
      </select>
      <Icon name="down" size={12} />
    </span>
  )
}

interface SelectProps extends Omit<SelectHTMLAttributes<HTMLSelectElement>, 'className' | 'children'>, Mono {
  readonly options: readonly { readonly value: string; readonly label?: string }[]
  readonly isBare?: boolean
}

export function Checkbox({ label, ...rest }: CheckProps): ReactNode {
  return (
    <label className="check">
      <input type="checkbox" {...rest} />
      <span>{label}</span>
    </label>
  )
}

interface CheckProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'className' | 'type'> {
  readonly label: ReactNode
}

/** Radio buttons, each with a sentence about its effect. */
export function Choices<Value extends string>(props: ChoicesProps<Value>): ReactNode {
  const { legend, name, value, onChange, choices } = props
  return (
    <fieldset className="choices">
      <legend className="label">{legend}</legend>
      {choices.map((choice) => (
        <label key={choice.value} className="choice radio">
          <input
            type="radio"
            name={name}
            value={choice.value}
            checked={choice.value === value}
            disabled={choice.off !== undefined}
            onChange={() => onChange(choice.value)}
          />
          <span>
            <b>{choice.label}</b>
            {(choice.off ?? choice.explanation) !== undefined && (
              <small>{choice.off ?? choice.explanation}</small>
            )}
          </span>
        </label>
      ))}
    </fieldset>
  )
}

interface ChoicesProps<Value extends string> {
  readonly legend: ReactNode
  readonly name: string
  readonly value: Value | undefined
  readonly onChange: (value: Value) => void
  readonly choices: readonly {
    readonly value: Value
    readonly label: ReactNode
    readonly explanation?: ReactNode
    /** Why this choice is not available; shown instead of the explanation. */
    readonly off?: string | undefined
  }[]
}

/** The search field of a page, focused by `/`. Escape first empties it and then leaves it; Enter and arrows lead to the results. */
export function SearchInput({
  label,
  value,
  onChange,
  placeholder,
  onDown,
  onEnter,
}: SearchProps): ReactNode {
  const id = useId()
  return (
    <div className="search">
      <label className="vh" htmlFor={id}>
        {label}
      </label>
      <Icon name="search" />
      <input
        id={id}
        className="input"
        type="search"
        autoComplete="off"
        spellCheck={false}
        placeholder={placeholder}
        value={value}
        data-page-search=""
        onChange={(event) => onChange(event.currentTarget.value)}
        onKeyDown={(event) => {
          // During composition, Enter and arrows belong to the input method.
          if (event.nativeEvent.isComposing) return
          if (event.key === 'Escape' && value === '') event.currentTarget.blur()
          else if (event.key === 'Escape') onChange('')
          else if (event.key === 'ArrowDown') onDown()
          else if (event.key === 'Enter') onEnter()
          else return
          event.preventDefault()
        }}
      />
      <kbd>/</kbd>
    </div>
  )
}

interface SearchProps {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly placeholder?: string
  /** Moves the focus to the results. */
  readonly onDown: () => void
  /** Opens the first result. */
  readonly onEnter: () => void
}
