// A Markdown renderer that creates elements, never HTML: text from models and files is untrusted. HTML
// in it is shown as source, links lead only to the web or to mail, and nothing is loaded from a network.

import { Lexer, type Token, type Tokens } from "marked";
import type { ComponentChildren, JSX } from "preact";
import { memo } from "./memo";
import { CodeBlock } from "./code";

const LINK = /^(https?:|mailto:)/i;
const IMAGE = /^data:image\/(png|jpe?g|gif|webp|avif);base64,/i;

export function isImage(uri: string): boolean {
  return IMAGE.test(uri);
}

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return <div class="markdown">{new Lexer({ gfm: true, breaks: false }).lex(text).map(block)}</div>;
});

function block(token: Token): ComponentChildren {
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return heading(token as Tokens.Heading);
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "code":
      return <CodeBlock code={token["text"]} language={(token["lang"] ?? "").split(/\s/, 1)[0]} />;
    case "blockquote":
      return <blockquote>{token.tokens?.map(block)}</blockquote>;
    case "list":
      return list(token as Tokens.List);
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return <hr />;
    case "text":
      return token.tokens ? inline(token.tokens) : unescaped(token["text"]);
    default:
      return <p>{token.raw}</p>;
  }
}

/** Headings inside a message stand below the headings of the page. */
function heading({ depth, tokens }: Tokens.Heading): ComponentChildren {
  const Tag = `h${Math.min(6, depth + 2)}` as "h3";
  return <Tag>{inline(tokens)}</Tag>;
}

function list({ ordered, start, items }: Tokens.List): ComponentChildren {
  const children = items.map((item) => (
    <li class={item.task ? "task" : undefined}>
      {item.task && <span class="tick">{item.checked ? "☑ " : "☐ "}</span>}
      {item.tokens.map((token) => (token.type === "checkbox" ? null : block(token)))}
    </li>
  ));
  return ordered ? <ol start={Number(start) || 1}>{children}</ol> : <ul>{children}</ul>;
}

function table({ header, rows }: Tokens.Table): ComponentChildren {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {header.map((cell) => (
              <th scope="col">{inline(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              {row.map((cell) => (
                <td>{inline(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: Token[] | undefined): ComponentChildren {
  return tokens?.map((token): ComponentChildren => {
    switch (token.type) {
      case "strong":
        return <strong>{inline(token.tokens)}</strong>;
      case "em":
        return <em>{inline(token.tokens)}</em>;
      case "del":
        return <del>{inline(token.tokens)}</del>;
      case "codespan":
        return <code>{unescaped(token["text"])}</code>;
      case "br":
        return <br />;
      case "link":
        return anchor(token["href"], inline(token.tokens));
      case "image":
        return image(token["href"], token["text"]);
      case "escape":
        return unescaped(token["text"]);
      case "text":
        return token.tokens ? inline(token.tokens) : unescaped(token["text"]);
      default:
        return token.raw;
    }
  });
}

function anchor(href: string, children: ComponentChildren): JSX.Element {
  if (!LINK.test(href)) return <span title={href}>{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

function image(uri: string, alt: string): JSX.Element {
  if (isImage(uri)) return <img src={uri} alt={alt} />;
  return <span class="left-out">[image not loaded: {alt || uri}]</span>;
}

const ENTITIES: Record<string, string> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&nbsp;": "\u00a0",
};

function unescaped(text: string): string {
  return text.replace(/&(?:amp|lt|gt|quot|#39|nbsp);/g, (entity) => ENTITIES[entity] ?? entity);
}
