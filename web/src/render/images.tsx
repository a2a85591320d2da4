// Image thumbnails, and the reading of image files as data URIs that fit into one frame of the API.

import { isImage } from "./markdown";

const SIDE = 1568;
const ROOM = 700_000;
const AS_IS = 200_000;

export function Pictures({ images, onRemove }: { images: string[]; onRemove?: (index: number) => void }) {
  if (images.length === 0) return null;
  return (
    <div class="pictures">
      {images.map((uri, index) => (
        <figure key={uri}>
          <img src={uri} alt={`Picture ${index + 1}`} />
          {onRemove && (
            <button class="icon" aria-label={`Remove picture ${index + 1}`} onClick={() => onRemove(index)}>
              ✕
            </button>
          )}
        </figure>
      ))}
    </div>
  );
}

/** The pictures among some files, as data URIs; `taken` characters of the frame are in use already. */
export async function readPictures(files: Iterable<File>, taken: number): Promise<string[]> {
  const uris: string[] = [];
  let room = ROOM - taken;
  for (const file of files) {
    if (!file.type.startsWith("image/")) continue;
    const uri = await readPicture(file);
    if (uri.length > room)
      throw new Error(`There is no room for ${file.name || "this picture"} in one message.`);
    room -= uri.length;
    uris.push(uri);
  }
  return uris;
}

async function readPicture(file: File): Promise<string> {
  if (file.size < AS_IS) {
    const uri = await dataUri(file);
    if (isImage(uri)) return uri;
  }
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.8);
}

function dataUri(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
