import {
  type BaseInputTemplateProps,
  enumOptionsIndexForValue,
  getInputProps,
  type RegistryWidgetsType,
  type WidgetProps,
} from '@rjsf/utils'
import type { ReactNode } from 'react'
import { Checkbox, Select, TextArea, TextInput } from '../../../parts/field.tsx'
import { visibleText } from '../../../parts/visible-text.ts'
import { WORDS } from '../words.tsx'
import { describedBy } from './field-ids.ts'
import { DEFAULT } from './form-schema.ts'

/*
 * The controls of the form. `form-templates.tsx` and `input-form.tsx` use it. A date or time is kept as it was typed.
 */

/** A text field whose maximum length is at least this many characters has several lines. */
const LONG_TEXT = 300

/** Text, numbers and dates, with the default in grey. */
export function BaseInput(props: BaseInputTemplateProps): ReactNode {
  const { id, value, schema, type, options, onChange, placeholder, registry } = props
  const { type: kind, step, min, max } = getInputProps(schema, type, options)
  const text = value === undefined || value === null ? '' : String(value)
  const defaultValue: unknown = schema[DEFAULT]
  const shared = {
    id,
    value: text,
    placeholder:
      placeholder || (defaultValue === undefined ? hintOf(schema.format) : showValue(defaultValue)),
    isMono: true,
    ...describedBy(id, schema, registry.formContext),
  }
  const isLong = kind === 'text' && (text.includes('\n') || (schema.maxLength ?? 0) >= LONG_TEXT)
  const change = (next: string): void => onChange(next === '' ? options.emptyValue : next)
  if (isLong) return <TextArea {...shared} onChange={(event) => change(event.currentTarget.value)} />
  return (
    <TextInput
      {...shared}
      type={kind ?? 'text'}
      step={step ?? undefined}
      min={min ?? undefined}
      max={max ?? undefined}
      onChange={(event) => change(event.currentTarget.value)}
    />
  )
}

function showValue(value: unknown): string {
  return visibleText(typeof value === 'string' ? value : JSON.stringify(value))
}

function hintOf(format: string | undefined): string | undefined {
  return format === 'date-time' ? '2026-11-14T11:52:08Z' : format === 'time' ? '11:52:08Z' : undefined
}

/** The value as typed: the library's own widget would convert times to the reader's zone. */
function PlainText(props: WidgetProps): ReactNode {
  return <BaseInput {...props} type="text" />
}

function OneOf(props: WidgetProps): ReactNode {
  const { id, value, options, onChange, multiple, schema, label, registry, required } = props
  const choices = options.enumOptions ?? []
  if (multiple === true) return <ManyOf {...props} />
  const index = enumOptionsIndexForValue(value, choices)
  const isSet = typeof index === 'string'
  const defaultValue: unknown = schema[DEFAULT]
  const nothing =
    defaultValue === undefined
      ? required === true
        ? WORDS.chooseOne
        : 'none'
      : WORDS.defaultWord(showValue(defaultValue))
  const isAlternative = id.endsWith('_select')
  return (
    <Select
      id={id}
      aria-label={isAlternative ? WORDS.kind(visibleText(label)) : undefined}
      value={isSet ? index : ''}
      options={[
        ...(isAlternative ? [] : [{ value: '', label: nothing }]),
        ...choices.map((choice, at) => ({ value: String(at), label: visibleText(choice.label) })),
      ]}
      {...describedBy(id, schema, registry.formContext)}
      onChange={(event) => {
        const chosen = event.currentTarget.value
        onChange(chosen === '' ? options.emptyValue : choices[Number(chosen)]?.value)
      }}
    />
  )
}

function ManyOf({ value, options, onChange, label, name }: WidgetProps): ReactNode {
  const chosen: readonly unknown[] = Array.isArray(value) ? value : []
  return (
    <fieldset className="field-group">
      <legend className="label">
        <code>{visibleText(name || label)}</code>
      </legend>
      {(options.enumOptions ?? []).map((choice) => (
        <Checkbox
          key={choice.label}
          label={visibleText(choice.label)}
          checked={chosen.includes(choice.value)}
          onChange={(event) =>
            onChange(
              event.currentTarget.checked
                ? [...chosen, choice.value]
                : chosen.filter((item) => item !== choice.value),
            )
          }
        />
      ))}
    </fieldset>
  )
}

/** A checkbox with three states: yes, no, and not set, which is the initial state. */
function YesNo({ id, value, onChange, label, name, schema, registry, required }: WidgetProps): ReactNode {
  const defaultValue: unknown = schema[DEFAULT]
  return (
    <span className="row">
      <Checkbox
        id={id}
        label={<code>{visibleText(name || label)}</code>}
        checked={value === true}
        onChange={(event) => onChange(event.currentTarget.checked)}
        {...describedBy(id, schema, registry.formContext)}
      />
      {required === true && <span className="meta dim">{WORDS.required}</span>}
      {value === undefined && (
        <span className="meta dim">
          {defaultValue === undefined ? WORDS.notSent : WORDS.defaultWord2(String(defaultValue))}
        </span>
      )}
      {value !== undefined && required !== true && (
        <button type="button" className="plain link meta" onClick={() => onChange(undefined)}>
          {WORDS.clear(
            <span className="vh" dir="auto">
              {' '}
              {visibleText(name || label)}
            </span>,
          )}
        </button>
      )}
    </span>
  )
}

export const WIDGETS: RegistryWidgetsType = {
  CheckboxWidget: YesNo,
  SelectWidget: OneOf,
  RadioWidget: OneOf,
  CheckboxesWidget: ManyOf,
  DateTimeWidget: PlainText,
  TimeWidget: PlainText,
  FileWidget: PlainText,
  ColorWidget: PlainText,
  PasswordWidget: PlainText,
}
